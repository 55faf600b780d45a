// SPDX-License-Identifier: Apache-2.0
// Annotation queries -> events: in go the series of an annotation query, out come points and regions in time, as Grafana folds them.
import { renderLegendFormat } from '@grafana/data';

import type { PromSeries } from '../api/prometheus';
import { parseSample } from '../api/prometheus';
import type { AnnotationQuery } from '../dashboard/model';

export interface AnnotationEvent {
  source: string;
  /** Milliseconds since the epoch. */
  time: number;
  timeEnd?: number;
  title: string;
  text: string;
  tags: string[];
  color: string;
}

/** Many more events than this in one window are a wall of colour, and a sign of a wrong query. */
const MOST_EVENTS = 500;

export function foldAnnotations(query: AnnotationQuery, series: PromSeries[], stepMs: number, color: string): AnnotationEvent[] {
  const valueIsTime = query.useValueForTime === true || query.useValueForTime === 'on';
  const events = series.flatMap((entry) => {
    const base = {
      source: query.name,
      title: query.titleFormat ? renderLegendFormat(query.titleFormat, entry.metric) : query.name,
      text: query.textFormat ? renderLegendFormat(query.textFormat, entry.metric) : '',
      tags: tagsOf(query, entry.metric),
      color,
    };
    const spans = valueIsTime ? instants(entry, stepMs) : regions(entry, stepMs);
    return spans.map((span): AnnotationEvent => ({ ...base, ...span }));
  });
  return events.sort((a, b) => a.time - b.time).slice(-MOST_EVENTS);
}

function tagsOf(query: AnnotationQuery, metric: Record<string, string>): string[] {
  return (query.tagKeys ?? '')
    .split(',')
    .map((key) => metric[key.trim()])
    .filter((value): value is string => Boolean(value));
}

/** The value is the time in milliseconds; the same value again within a step is the same event. */
function instants(entry: PromSeries, stepMs: number): Array<{ time: number }> {
  const times: Array<{ time: number }> = [];
  const sorted = entry.values.map(([, text]) => parseSample(text)).filter((v) => Number.isFinite(v) && v > 0).sort((a, b) => a - b);
  for (const time of sorted) {
    const last = times.at(-1);
    if (!last || time - last.time > stepMs) {
      times.push({ time: Math.floor(time) });
    }
  }
  return times;
}

/** Samples above zero that follow one another within a step belong to one event; longer ones are regions. */
function regions(entry: PromSeries, stepMs: number): Array<{ time: number; timeEnd?: number }> {
  const found: Array<{ time: number; timeEnd?: number }> = [];
  for (const [seconds, text] of entry.values) {
    if (!(parseSample(text) > 0)) {
      continue;
    }
    const time = Math.floor(seconds * 1000);
    const last = found.at(-1);
    if (last && time - (last.timeEnd ?? last.time) <= stepMs) {
      last.timeEnd = time;
    } else {
      found.push({ time });
    }
  }
  return found;
}
