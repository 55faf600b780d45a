// SPDX-License-Identifier: Apache-2.0
// Runs the dashboard's enabled annotation queries once per refresh: in go the dashboard and its scope, out come events and errors.
import type { GrafanaTheme2 } from '@grafana/data';
import { useEffect, useRef, useState } from 'react';

import { isAbort } from '../api/http';
import { queryRange } from '../api/prometheus';
import type { DataSource } from '../api/server';
import type { AnnotationQuery } from '../dashboard/model';
import { findDataSource, kindOf } from '../query/datasource';
import { alignedWindow, intervalMacros, resolution } from '../query/interval';
import { interpolate } from '../query/interpolate';
import type { DashboardScope } from '../query/scope';
import { makeLookup } from '../query/scope';
import type { AnnotationEvent } from './fold';
import { foldAnnotations } from './fold';

/** Only queries against metrics stores can be asked here; Grafana's own annotation store is not part of the stack. */
export function usable(query: AnnotationQuery): boolean {
  return !query.builtIn && Boolean(query.expr ?? query.target?.expr);
}

interface State {
  events: AnnotationEvent[];
  errors: Record<string, string>;
}

const NONE: State = { events: [], errors: {} };
const POINTS = 300;

export function useAnnotations(
  queries: AnnotationQuery[],
  scope: DashboardScope | undefined,
  sources: DataSource[],
  theme: GrafanaTheme2,
  key: string,
  tick: number
): State {
  const [state, setState] = useState<State>(NONE);
  const running = useRef<{ key: string; controller: AbortController } | null>(null);

  useEffect(() => {
    if (!scope || running.current?.key === key) {
      return;
    }
    running.current?.controller.abort();
    const mine = { key, controller: new AbortController() };
    running.current = mine;
    void Promise.all(queries.map((query) => ask(query, scope, sources, theme, mine.controller.signal))).then((answers) => {
      if (running.current !== mine) {
        return;
      }
      running.current = null;
      setState({
        events: answers.flatMap((answer) => answer.events),
        errors: Object.assign({}, ...answers.map((answer) => answer.errors)) as Record<string, string>,
      });
    });
    // The queries and the scope are described by `key`; see usePanelData.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, tick, scope === undefined]);

  useEffect(() => () => running.current?.controller.abort(), []);
  return state;
}

async function ask(query: AnnotationQuery, scope: DashboardScope, sources: DataSource[], theme: GrafanaTheme2, signal: AbortSignal): Promise<State> {
  try {
    const source = findDataSource(query.datasource, undefined, sources, makeLookup(scope));
    if (kindOf(source.type) !== 'prometheus') {
      throw new Error(`Annotations from "${source.type}" are not supported by the viewer.`);
    }
    const fineness = resolution({
      range: scope.range,
      maxDataPoints: POINTS,
      targetInterval: query.step ?? query.target?.interval,
      timeInterval: source.jsonData?.timeInterval,
    });
    const expr = interpolate(query.expr ?? query.target?.expr ?? '', makeLookup(scope, intervalMacros(fineness)), 'promql');
    const window = alignedWindow(scope.range, fineness.intervalMs);
    // One step more than the range, or the newest event would wait for the next multiple of the step.
    const series = await queryRange(source.uid, expr, { ...window, end: window.end + window.step }, signal);
    const color = theme.visualization.getColorByName(query.iconColor || 'blue');
    return { events: foldAnnotations(query, series, fineness.intervalMs, color), errors: {} };
  } catch (error) {
    return isAbort(error) ? NONE : { events: [], errors: { [query.name]: error instanceof Error ? error.message : String(error) } };
  }
}
