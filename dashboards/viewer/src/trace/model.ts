// SPDX-License-Identifier: Apache-2.0
// A Jaeger trace -> rows of a waterfall: grouped by rank, nested by parent, in order of time. Pure.
import type { JaegerProcess, JaegerSpan, JaegerTag, JaegerTrace } from '../api/jaeger';

export interface SpanRow {
  span: JaegerSpan;
  process: JaegerProcess;
  depth: number;
  /** Microseconds after the trace's start. */
  offset: number;
  error: boolean;
  tags: Array<[string, string]>;
}

export interface SpanGroup {
  key: string;
  title: string;
  rows: SpanRow[];
}

export interface Waterfall {
  traceId: string;
  /** Microseconds since the epoch. */
  start: number;
  /** Microseconds. */
  duration: number;
  spans: number;
  groups: SpanGroup[];
}

const RANK_TAGS = ['dist.rank', 'dist_rank', 'rank'];

const tagValue = (tags: JaegerTag[] | undefined, names: string[]): string | undefined => {
  const tag = tags?.find((t) => names.includes(t.key));
  return tag === undefined ? undefined : String(tag.value);
};

export function buildWaterfall(trace: JaegerTrace): Waterfall {
  const spans = trace.spans;
  const start = spans.reduce((min, s) => Math.min(min, s.startTime), Infinity);
  const end = spans.reduce((max, s) => Math.max(max, s.startTime + s.duration), -Infinity);
  const groups = new Map<string, JaegerSpan[]>();
  for (const span of spans) {
    const key = groupKey(span, processOf(trace, span));
    groups.set(key, [...(groups.get(key) ?? []), span]);
  }
  const ordered = [...groups.keys()].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  return {
    traceId: trace.traceID,
    start: Number.isFinite(start) ? start : 0,
    duration: Number.isFinite(end) ? Math.max(1, end - start) : 1,
    spans: spans.length,
    groups: ordered.map((key) => ({ key, title: key, rows: nest(groups.get(key)!, trace, start) })),
  };
}

function processOf(trace: JaegerTrace, span: JaegerSpan): JaegerProcess {
  return span.process ?? trace.processes[span.processID] ?? { serviceName: 'unknown' };
}

function groupKey(span: JaegerSpan, process: JaegerProcess): string {
  const rank = tagValue(span.tags, RANK_TAGS) ?? tagValue(process.tags, RANK_TAGS);
  const host = tagValue(process.tags, ['host.name', 'hostname']);
  const name = rank === undefined ? process.serviceName : `rank ${rank}`;
  return host ? `${name} · ${host}` : name;
}

function nest(spans: JaegerSpan[], trace: JaegerTrace, start: number): SpanRow[] {
  const ids = new Set(spans.map((span) => span.spanID));
  const children = new Map<string, JaegerSpan[]>();
  const roots: JaegerSpan[] = [];
  for (const span of spans) {
    const parent = span.references?.find((r) => r.refType === 'CHILD_OF')?.spanID;
    // A parent in another rank's group (or one that was not kept) leaves a root here.
    if (parent && parent !== span.spanID && ids.has(parent)) {
      children.set(parent, [...(children.get(parent) ?? []), span]);
    } else {
      roots.push(span);
    }
  }
  const rows: SpanRow[] = [];
  const seen = new Set<string>();
  const visit = (span: JaegerSpan, depth: number) => {
    if (seen.has(span.spanID)) {
      return;
    }
    seen.add(span.spanID);
    rows.push(row(span, processOf(trace, span), depth, start));
    byTime(children.get(span.spanID) ?? []).forEach((child) => visit(child, depth + 1));
  };
  byTime(roots).forEach((span) => visit(span, 0));
  // Parents that form a circle have no root: show them flat rather than not at all.
  byTime(spans).forEach((span) => visit(span, 0));
  return rows;
}

const byTime = (spans: JaegerSpan[]) => [...spans].sort((a, b) => a.startTime - b.startTime || b.duration - a.duration);

function row(span: JaegerSpan, process: JaegerProcess, depth: number, start: number): SpanRow {
  const tags = [...(span.tags ?? []), ...(process.tags ?? [])].map(({ key, value }): [string, string] => [
    key,
    typeof value === 'string' ? value : JSON.stringify(value),
  ]);
  const status = tagValue(span.tags, ['otel.status_code']);
  return {
    span,
    process,
    depth,
    offset: span.startTime - start,
    error: tagValue(span.tags, ['error']) === 'true' || status === 'ERROR',
    tags: tags.sort(([a], [b]) => a.localeCompare(b)),
  };
}

/** 1234 µs -> "1.23 ms". */
export function durationLabel(us: number): string {
  if (us < 1000) {
    return `${Math.round(us)} µs`;
  }
  const [value, unit] = us < 1e6 ? [us / 1e3, 'ms'] : [us / 1e6, 's'];
  return `${value.toPrecision(3).replace(/\.0+$/, '')} ${unit}`;
}
