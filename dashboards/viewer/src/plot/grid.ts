// SPDX-License-Identifier: Apache-2.0
// Series -> a dense matrix of rows by time, and that matrix -> pixels. Pure numbers, no canvas and no React, so that ten thousand
// rows stay within the frame budget.
import type { DataFrame } from '@grafana/data';
import { FieldType, getFieldDisplayName } from '@grafana/data';

export interface Grid {
  /** Row names, bottom row first. */
  rows: string[];
  /** Milliseconds; column c covers (times[c] - step, times[c]]. */
  times: number[];
  stepMs: number;
  /** rows x columns, row-major; NaN where there is no sample. */
  values: Float64Array;
  min: number;
  max: number;
}

interface Row {
  name: string;
  times: ArrayLike<number>;
  values: ArrayLike<number | null>;
}

function rowsOf(frames: DataFrame[]): Row[] {
  return frames.flatMap((frame) => {
    const time = frame.fields.find((field) => field.type === FieldType.time);
    return frame.fields
      .filter((field) => time && field.type === FieldType.number)
      .map((field) => ({
        // With thousands of frames, computing unique names pairwise would be quadratic.
        name: field.config.displayName ?? field.config.displayNameFromDS ?? getFieldDisplayName(field, frame, frames.length > 500 ? undefined : frames),
        times: time!.values as number[],
        values: field.values as Array<number | null>,
      }));
  });
}

const isNumeric = (text: string) => text.trim() !== '' && Number.isFinite(Number(text));

/** Rows keep their order, unless all names are numbers: those are sorted as numbers, as Grafana does. */
export function buildGrid(frames: DataFrame[], reverse = false): Grid {
  const rows = rowsOf(frames);
  if (rows.length > 0 && rows.every((row) => isNumeric(row.name))) {
    rows.sort((a, b) => Number(a.name) - Number(b.name));
  }
  if (reverse) {
    rows.reverse();
  }
  let first = Infinity;
  let last = -Infinity;
  let stepMs = Infinity;
  for (const { times } of rows) {
    for (let i = 0; i < times.length; i++) {
      if (i > 0) {
        stepMs = Math.min(stepMs, times[i] - times[i - 1] || Infinity);
      }
    }
    if (times.length > 0) {
      first = Math.min(first, times[0]);
      last = Math.max(last, times[times.length - 1]);
    }
  }
  if (!Number.isFinite(first)) {
    return { rows: [], times: [], stepMs: 1, values: new Float64Array(0), min: 0, max: 0 };
  }
  if (!Number.isFinite(stepMs)) {
    stepMs = (frames[0]?.fields[0]?.config.interval as number | undefined) ?? 1000;
  }
  const columns = Math.min(MOST_COLUMNS, Math.round((last - first) / stepMs) + 1);
  const width = columns > 1 ? (last - first) / (columns - 1) : stepMs;
  const values = new Float64Array(rows.length * columns).fill(NaN);
  let min = Infinity;
  let max = -Infinity;
  rows.forEach((row, r) => {
    for (let i = 0; i < row.times.length; i++) {
      const value = row.values[i];
      if (value === null || value === undefined || !Number.isFinite(value)) {
        continue;
      }
      values[r * columns + Math.round((row.times[i] - first) / width)] = value;
      min = Math.min(min, value);
      max = Math.max(max, value);
    }
  });
  return {
    rows: rows.map((row) => row.name),
    times: Array.from({ length: columns }, (_, c) => first + c * width),
    stepMs: width,
    values,
    min: Number.isFinite(min) ? min : 0,
    max: Number.isFinite(max) ? max : 0,
  };
}

const MOST_COLUMNS = 4000;

export interface Paint {
  /** 256 colours as 0xAABBGGRR. */
  palette: Uint32Array;
  min: number;
  max: number;
  /** Values at or below this are left blank. */
  hideBelow?: number;
}

/** Pixels of columns x height, top row first. Where several rows share a pixel, the largest value wins: outliers stay visible. */
export function paintGrid(grid: Grid, height: number, paint: Paint): Uint32Array {
  const columns = grid.times.length;
  const rows = grid.rows.length;
  const out = new Uint32Array(columns * height);
  const scale = paint.max > paint.min ? 255 / (paint.max - paint.min) : 0;
  const hideBelow = paint.hideBelow ?? -Infinity;
  for (let y = 0; y < height; y++) {
    const from = Math.floor(((height - 1 - y) * rows) / height);
    const to = Math.max(from + 1, Math.floor(((height - y) * rows) / height));
    for (let c = 0; c < columns; c++) {
      let best = NaN;
      for (let r = from; r < to; r++) {
        const value = grid.values[r * columns + c];
        if (value > best || best !== best) {
          best = value;
        }
      }
      if (best === best && best > hideBelow) {
        const shade = scale === 0 ? 128 : (best - paint.min) * scale;
        out[y * columns + c] = paint.palette[Math.max(0, Math.min(255, Math.round(shade)))];
      }
    }
  }
  return out;
}

/** Which rows get a label so that labels do not overlap. */
export function labelledRows(count: number, heightPx: number, labelPx = 15): number[] {
  const every = Math.max(1, Math.ceil((count * labelPx) / Math.max(1, heightPx)));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}
