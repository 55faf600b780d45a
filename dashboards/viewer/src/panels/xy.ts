// SPDX-License-Identifier: Apache-2.0
// XY chart's mapping: frames and the panel's series options in, pairs of fields out. Pure.
import type { DataFrame, Field, MatcherConfig } from '@grafana/data';
import { fieldMatchers, FieldType, frameMatchers, getFieldDisplayName } from '@grafana/data';

export interface XYSeriesOptions {
  frame?: { matcher: MatcherConfig };
  x?: { matcher: MatcherConfig };
  y?: { matcher: MatcherConfig };
  name?: { fixed?: string };
}

export interface XYSeries {
  name: string;
  x: Field;
  y: Field;
}

export function xySeries(frames: DataFrame[], mapping: string, options: XYSeriesOptions[]): XYSeries[] {
  const wanted = options.length > 0 ? options : [{}];
  return wanted.flatMap((series) => {
    const matchFrame = mapping === 'manual' && series.frame ? frameMatchers.get(series.frame.matcher.id).get(series.frame.matcher.options) : undefined;
    return frames.filter((frame) => !matchFrame || matchFrame(frame)).flatMap((frame) => pairs(frame, frames, series));
  });
}

function pairs(frame: DataFrame, frames: DataFrame[], series: XYSeriesOptions): XYSeries[] {
  const matcher = (config: MatcherConfig | undefined) => config && fieldMatchers.get(config.id).get(config.options);
  const matchX = matcher(series.x?.matcher);
  const matchY = matcher(series.y?.matcher);
  const usable = frame.fields.filter((field) => field.type === FieldType.number || field.type === FieldType.time);
  const x = matchX ? usable.find((field) => matchX(field, frame, frames)) : usable[0];
  if (!x) {
    return [];
  }
  const ys = usable.filter((field) => field !== x && field.type === FieldType.number && (!matchY || matchY(field, frame, frames)));
  return ys.map((y) => ({
    name: series.name?.fixed ?? (ys.length > 1 || !frame.name ? getFieldDisplayName(y, frame, frames) : frame.name),
    x,
    y,
  }));
}
