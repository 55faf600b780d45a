// SPDX-License-Identifier: Apache-2.0
// Runs the queries of one panel: in go the panel, the range and the variables, out come frames (raw: no units, no colours).
import type { DataFrame, TimeRange } from '@grafana/data';

import { searchTraces, getTrace } from '../api/jaeger';
import { isAbort } from '../api/http';
import { queryLogs } from '../api/logs';
import type { PromSeries } from '../api/prometheus';
import { queryInstant, queryRange } from '../api/prometheus';
import type { DataSource } from '../api/server';
import type { Panel, Target } from '../dashboard/model';
import { panelRange } from '../time/range';
import { findDataSource, kindOf } from './datasource';
import { toFrames } from './frames';
import { alignedWindow, intervalMacros, resolution } from './interval';
import { interpolate } from './interpolate';
import { logsFrame } from './logsFrame';
import type { DashboardScope } from './scope';
import { makeLookup } from './scope';
import { tracesFrame } from './tracesFrame';
import { transform } from './transform';

/** More lines than this in one chart tell a reader nothing and cost the browser seconds. */
export const MOST_SERIES = 200;
/** A heatmap is made for many series. */
export const MOST_ROWS = 10_000;
export const MOST_TABLE_ROWS = 5000;
/** Cells of a heatmap narrower than this many across a panel are not seen, and thousands of rows make each column dear. */
const MOST_COLUMNS = 300;

export interface PanelQuery {
  panel: Panel;
  scope: DashboardScope;
  sources: DataSource[];
  /** Width of the drawing area in pixels: no more points than that are asked for. */
  width: number;
}

export interface PanelResult {
  frames: DataFrame[];
  /** The window that was asked for; panels draw this one. */
  range: TimeRange;
  /** One text per failed query. */
  errors: string[];
  /** Series found and drawn, when some were left out. */
  capped?: { shown: number; total: number };
}

interface TargetResult {
  frames: DataFrame[];
  total: number;
  shown: number;
}

export async function runPanel(query: PanelQuery, signal: AbortSignal): Promise<PanelResult> {
  const began = performance.now();
  const { panel, scope } = query;
  const range = panelRange(scope.range, panel.timeFrom, panel.timeShift);
  const targets = (panel.targets ?? []).filter((target) => !target.hide);
  const errors: string[] = [];
  const results = await Promise.all(
    targets.map(async (target): Promise<TargetResult> => {
      try {
        return await runTarget(target, targets, range, query, signal);
      } catch (error) {
        if (isAbort(error) || signal.aborted) {
          throw error;
        }
        errors.push(targets.length > 1 ? `${target.refId}: ${textOf(error)}` : textOf(error));
        return { frames: [], total: 0, shown: 0 };
      }
    })
  );
  let frames = results.flatMap((result) => result.frames);
  if (frames.length > 0) {
    try {
      frames = await transform(panel.transformations, frames, makeLookup(scope, {}, panel.scopedVars));
    } catch (error) {
      errors.push(textOf(error));
    }
  }
  performance.measure(`panel ${panel.id} data`, { start: began });
  const total = results.reduce((sum, result) => sum + result.total, 0);
  const shown = results.reduce((sum, result) => sum + result.shown, 0);
  return { frames, range, errors, capped: shown < total ? { shown, total } : undefined };
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function runTarget(target: Target, all: Target[], range: TimeRange, query: PanelQuery, signal: AbortSignal): Promise<TargetResult> {
  const { panel, scope, sources, width } = query;
  const source = findDataSource(target.datasource, panel.datasource, sources, makeLookup(scope, {}, panel.scopedVars));
  const fineness = resolution({
    range,
    maxDataPoints: panel.maxDataPoints ?? (panel.type === 'heatmap' ? Math.min(width, MOST_COLUMNS) : width),
    panelInterval: interpolate(panel.interval ?? '', makeLookup(scope, {}, panel.scopedVars), 'text'),
    targetInterval: interpolate(target.interval ?? '', makeLookup(scope, {}, panel.scopedVars), 'text'),
    timeInterval: source.jsonData?.timeInterval,
  });
  const lookup = makeLookup({ ...scope, range }, intervalMacros(fineness), panel.scopedVars);
  const aligned = alignedWindow(range, fineness.intervalMs);
  const exact = { start: range.from.valueOf() / 1000, end: range.to.valueOf() / 1000 };
  switch (kindOf(source.type)) {
    case 'prometheus': {
      const expr = interpolate(target.expr ?? '', lookup, 'promql');
      const instant = target.instant === true && target.range !== true;
      const series = !expr.trim()
        ? []
        : instant
          ? await queryInstant(source.uid, expr, exact.end, signal)
          : await queryRange(source.uid, expr, aligned, signal);
      return fromSeries(target, all, series, panel, expr, fineness.intervalMs);
    }
    case 'logs': {
      const expr = interpolate(target.expr ?? target.query ?? '', lookup, 'logsql') || '*';
      if (target.queryType === 'statsRange') {
        const series = await queryRange(source.uid, expr, aligned, signal, 'select/logsql/stats_query_range');
        return fromSeries(target, all, series, panel, expr, fineness.intervalMs);
      }
      if (target.queryType === 'stats') {
        const series = await queryInstant(source.uid, expr, exact.end, signal, 'select/logsql/stats_query');
        return fromSeries(target, all, series, panel, expr);
      }
      const lines = await queryLogs(source.uid, expr, exact, Math.min(target.maxLines || 500, MOST_TABLE_ROWS), signal);
      return { frames: lines.length > 0 ? [logsFrame(target.refId, lines)] : [], total: 0, shown: 0 };
    }
    case 'traces': {
      const text = (value: string | undefined) => interpolate(value ?? '', lookup, 'text').trim();
      if (target.queryType !== 'search' && text(target.query)) {
        const trace = await getTrace(source.uid, text(target.query), signal);
        return { frames: [{ ...tracesFrame(target.refId, [trace]), meta: { custom: { trace } } }], total: 0, shown: 0 };
      }
      const traces = await searchTraces(
        source.uid,
        {
          service: text(target.service),
          operation: text(target.operation),
          tags: jaegerTags(text(target.tags)),
          minDuration: text(target.minDuration),
          maxDuration: text(target.maxDuration),
          limit: target.limit ?? 20,
          start: Math.round(exact.start * 1e6),
          end: Math.round(exact.end * 1e6),
        },
        signal
      );
      return { frames: traces.length > 0 ? [tracesFrame(target.refId, traces)] : [], total: 0, shown: 0 };
    }
    default:
      throw new Error(`The viewer cannot query data sources of type "${source.type}".`);
  }
}

function fromSeries(target: Target, all: Target[], series: PromSeries[], panel: Panel, expr: string, stepMs?: number): TargetResult {
  const most = target.format === 'table' ? MOST_TABLE_ROWS : panel.type === 'heatmap' ? MOST_ROWS : MOST_SERIES;
  const shown = series.length > most ? series.slice(0, most) : series;
  const severalTables = all.filter((t) => t.format === 'table').length > 1;
  return { frames: toFrames(target, shown, { stepMs, severalTables, expr }), total: series.length, shown: shown.length };
}

/** Grafana stores tags in logfmt ('run.id=abc error=true'); Jaeger's API wants a JSON object. */
export function jaegerTags(text: string): string {
  if (!text || text.startsWith('{')) {
    return text;
  }
  const tags: Record<string, string> = {};
  for (const match of text.matchAll(/([^\s=]+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))/g)) {
    tags[match[1]] = match[2] ?? match[3];
  }
  return JSON.stringify(tags);
}
