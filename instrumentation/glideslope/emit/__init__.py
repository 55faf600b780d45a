# SPDX-License-Identifier: Apache-2.0
"""Events in, OTLP bytes out: series blocks, spans, logs."""
