# SPDX-License-Identifier: Apache-2.0
"""Torch in, events out: the only importer of torch."""
