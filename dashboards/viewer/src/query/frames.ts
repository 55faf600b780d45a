// SPDX-License-Identifier: Apache-2.0
// Prometheus answers -> Grafana data frames. In go series and the target that asked, out come frames named as Grafana names them.
import type { DataFrame, Field } from '@grafana/data';
import { FieldType, renderLegendFormat } from '@grafana/data';

import type { PromSeries } from '../api/prometheus';
import { parseSample } from '../api/prometheus';
import type { Target } from '../dashboard/model';

export interface FrameOptions {
  /** Step of the query in milliseconds: wider gaps are drawn as gaps. */
  stepMs?: number;
  /** With more than one table in a panel, value columns carry the query's letter. */
  severalTables?: boolean;
  /** The query as sent: the name of a series without labels. */
  expr?: string;
}

export function toFrames(target: Target, series: PromSeries[], options: FrameOptions = {}): DataFrame[] {
  if (target.format === 'table') {
    return series.length > 0 ? [tableFrame(target, series, options)] : [];
  }
  const ordered = target.format === 'heatmap' ? decumulate(series) : series;
  return ordered.map((entry) => seriesFrame(target, entry, options));
}

function seriesFrame(target: Target, series: PromSeries, options: FrameOptions): DataFrame {
  const { __name__, ...labels } = series.metric;
  const length = series.values.length;
  const times = new Array<number>(length);
  const values = new Array<number | null>(length);
  for (let i = 0; i < length; i++) {
    const [seconds, text] = series.values[i];
    const value = parseSample(text);
    times[i] = Math.round(seconds * 1000);
    // A gap says more than a line that jumps to infinity: non-finite steps are counted in train.nonfinite.
    values[i] = Number.isFinite(value) ? value : null;
  }
  const name = legend(target, series.metric, options.expr);
  return {
    refId: target.refId,
    name,
    length,
    fields: [
      { name: 'Time', type: FieldType.time, config: { interval: options.stepMs }, values: times },
      { name: __name__ ?? 'Value', type: FieldType.number, labels, config: { displayNameFromDS: name }, values },
    ],
  };
}

/** Grafana's legend rules: a format with {{label}}, or "__auto", or nothing: then the series as PromQL spells it. */
export function legend(target: Pick<Target, 'legendFormat'>, metric: Record<string, string>, expr = ''): string | undefined {
  const format = target.legendFormat;
  if (format && format !== '__auto') {
    return renderLegendFormat(format, metric);
  }
  const { __name__, ...labels } = metric;
  const pairs = Object.entries(labels);
  if (format === '__auto' && pairs.length > 0) {
    return undefined;
  }
  if (pairs.length === 0) {
    return __name__ ?? expr;
  }
  return `${__name__ ?? ''}{${pairs.map(([k, v]) => `${k}=${JSON.stringify(v)}`).join(', ')}}`;
}

function tableFrame(target: Target, series: PromSeries[], options: FrameOptions): DataFrame {
  const names = [...new Set(series.flatMap((s) => Object.keys(s.metric)))].filter((name) => name !== '__name__').sort();
  const times: number[] = [];
  const values: number[] = [];
  const columns = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const { metric, values: samples } of series) {
    for (const [seconds, text] of samples) {
      times.push(Math.round(seconds * 1000));
      values.push(parseSample(text));
      for (const name of names) {
        columns.get(name)!.push(metric[name] ?? '');
      }
    }
  }
  const fields: Field[] = [
    { name: 'Time', type: FieldType.time, config: {}, values: times },
    ...names.map((name): Field => ({ name, type: FieldType.string, config: { filterable: true }, values: columns.get(name)! })),
    { name: options.severalTables ? `Value #${target.refId}` : 'Value', type: FieldType.number, config: {}, values },
  ];
  return { refId: target.refId, length: times.length, fields };
}

/** Prometheus histograms count cumulatively by "le"; a heatmap shows each bucket's own share. */
function decumulate(series: PromSeries[]): PromSeries[] {
  const ordered = [...series].sort((a, b) => parseSample(a.metric.le ?? '') - parseSample(b.metric.le ?? ''));
  return ordered.map((entry, i) => {
    if (i === 0) {
      return entry;
    }
    const below = new Map(ordered[i - 1].values);
    return { ...entry, values: entry.values.map(([t, v]) => [t, String(Math.max(0, Number(v) - Number(below.get(t) ?? 0)))]) };
  });
}
