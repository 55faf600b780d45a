# SPDX-License-Identifier: Apache-2.0
"""The spool, the sender and fork safety."""
