# SPDX-License-Identifier: Apache-2.0
"""The web server: viewer, proxy, alerts."""
