// SPDX-License-Identifier: Apache-2.0
// Tells apart "new samples" from "other series": in go frames, out comes a number that grows only when the plot must be rebuilt.
import type { DataFrame } from '@grafana/data';
import { getFieldDisplayName } from '@grafana/data';
import { useRef } from 'react';

export function structureKey(frames: DataFrame[]): string {
  return JSON.stringify(
    frames.map((frame) =>
      frame.fields.map((field) => {
        const { unit, min, max, decimals, custom, color, thresholds } = field.config;
        return [getFieldDisplayName(field, frame, frames), field.type, unit, min, max, decimals, custom, color, thresholds];
      })
    )
  );
}

export function useStructureRev(frames: DataFrame[], extra = ''): number {
  const state = useRef({ key: '', rev: 0 });
  const key = structureKey(frames) + extra;
  if (state.current.key !== key) {
    state.current = { key, rev: state.current.rev + 1 };
  }
  return state.current.rev;
}
