# SPDX-License-Identifier: Apache-2.0
"""Identity and wiring of the training path."""
