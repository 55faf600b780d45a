# SPDX-License-Identifier: Apache-2.0
"""The one place that names the version; read by the build and by the resource attributes."""

__version__ = "0.1.0"
