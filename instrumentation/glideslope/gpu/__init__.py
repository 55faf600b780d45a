# SPDX-License-Identifier: Apache-2.0
"""DCGM fields, exporter pages and GPU identity."""
