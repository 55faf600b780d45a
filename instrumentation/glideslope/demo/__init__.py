# SPDX-License-Identifier: Apache-2.0
"""The demonstration: `train.py`, a plain training script that knows nothing of glideslope."""
