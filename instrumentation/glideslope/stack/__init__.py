# SPDX-License-Identifier: Apache-2.0
"""The native stack: programs, builds, supervisor, rendering."""
