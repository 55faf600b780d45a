# SPDX-License-Identifier: Apache-2.0
"""Torch in, events out: the only importer of torch.

In: a training process that knows nothing of us. Out: `StepDone`, `LayerStats` and `Happened` events, handed to a sink.
Importing this package does not import torch; the modules that need it are loaded once the training has loaded it.
May import events, config and errors.
"""

from glideslope.capture.recorder import Recorder

__all__ = ["Recorder"]
