// SPDX-License-Identifier: Apache-2.0
// State timeline's arithmetic: a field's samples in, stretches of equal state out. Pure.
import type { DataFrame } from '@grafana/data';
import { FieldType, formattedValueToString, getFieldDisplayName } from '@grafana/data';

export interface Stretch {
  from: number;
  to: number;
  text: string;
  color: string;
}

export interface StateRow {
  name: string;
  stretches: Stretch[];
}

export function stateRows(frames: DataFrame[], merge: boolean): StateRow[] {
  return frames.flatMap((frame) => {
    const time = frame.fields.find((field) => field.type === FieldType.time);
    if (!time) {
      return [];
    }
    const step = time.config.interval ?? Infinity;
    return frame.fields
      .filter((field) => field !== time && [FieldType.number, FieldType.string, FieldType.boolean].includes(field.type))
      .map((field) => {
        const stretches: Stretch[] = [];
        for (let i = 0; i < frame.length; i++) {
          const value: unknown = field.values[i];
          if (value === null || value === undefined) {
            continue;
          }
          const from = time.values[i] as number;
          const next = (time.values[i + 1] as number | undefined) ?? from + (Number.isFinite(step) ? step : 1000);
          // A sample stands for one step; where samples are missing, the row stays blank.
          const to = next - from > step * 1.5 ? from + step : next;
          const display = field.display?.(value);
          const text = display ? formattedValueToString(display) : String(value);
          const color = display?.color ?? '#888888';
          const last = stretches.at(-1);
          if (merge && last && last.text === text && last.color === color && last.to >= from) {
            last.to = to;
          } else {
            stretches.push({ from, to, text, color });
          }
        }
        return { name: getFieldDisplayName(field, frame, frames), stretches };
      });
  });
}

/** The states seen, in order of first appearance, for the legend. */
export function statesSeen(rows: StateRow[]): Array<{ text: string; color: string }> {
  const seen = new Map<string, string>();
  for (const row of rows) {
    for (const { text, color } of row.stretches) {
      if (!seen.has(text)) {
        seen.set(text, color);
      }
    }
  }
  return [...seen].map(([text, color]) => ({ text, color }));
}
