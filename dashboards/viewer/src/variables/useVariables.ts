// SPDX-License-Identifier: Apache-2.0
// Resolves the dashboard's variables in their order (later ones may use earlier ones): in go the models and what the address says,
// out come values, options and errors. Values that were known stay in use while options are asked for again.
import type { TimeRange } from '@grafana/data';
import { useEffect, useRef, useState } from 'react';

import { isAbort } from '../api/http';
import type { DataSource } from '../api/server';
import type { Dashboard } from '../dashboard/model';
import { makeLookup } from '../query/scope';
import type { Variable } from './choose';
import { choose } from './choose';
import type { Option } from './options';
import { loadOptions } from './options';

/** While a dashboard refreshes every second, new runs appear in the list within this time. */
const OPTIONS_AGE_MS = 10_000;
const IGNORED = new Set(['adhoc', 'groupby', 'snapshot', 'system']);

export interface Resolved {
  variables: Map<string, Variable>;
  ready: boolean;
}

export async function resolveVariables(
  dashboard: Dashboard,
  asked: Map<string, string[]>,
  range: TimeRange,
  sources: DataSource[],
  signal: AbortSignal
): Promise<Map<string, Variable>> {
  const variables = new Map<string, Variable>();
  const scope = { variables, range, dashboard };
  for (const model of dashboard.templating?.list ?? []) {
    if (IGNORED.has(model.type)) {
      continue;
    }
    let options: Option[] = [];
    let error: string | undefined;
    try {
      options = await loadOptions(model, { lookup: makeLookup(scope), sources, range, signal });
    } catch (cause) {
      if (isAbort(cause) || signal.aborted) {
        throw cause;
      }
      error = cause instanceof Error ? cause.message : String(cause);
    }
    variables.set(model.name, choose(model, options, asked.get(model.name), error));
  }
  return variables;
}

export function useVariables(
  dashboard: Dashboard | undefined,
  asked: Map<string, string[]>,
  range: TimeRange,
  sources: DataSource[] | undefined,
  tick: number
): Resolved {
  const [resolved, setResolved] = useState<Resolved>({ variables: new Map(), ready: false });
  const askedKey = JSON.stringify([...asked]);
  const rangeKey = `${String(range.raw.from)} ${String(range.raw.to)}`;
  const key = dashboard && sources ? `${dashboard.uid} ${askedKey} ${rangeKey}` : undefined;
  const last = useRef<{ key?: string; at: number; running?: AbortController }>({ at: 0 });

  useEffect(() => {
    if (!dashboard || !sources || !key) {
      return;
    }
    const changed = last.current.key !== key;
    if (!changed && (last.current.running || Date.now() - last.current.at < OPTIONS_AGE_MS)) {
      return;
    }
    last.current.running?.abort();
    const controller = new AbortController();
    last.current = { key, at: Date.now(), running: controller };
    resolveVariables(dashboard, asked, range, sources, controller.signal).then(
      (variables) => {
        if (last.current.running === controller) {
          last.current.running = undefined;
          setResolved({ variables, ready: true });
        }
      },
      () => undefined
    );
    // `key` stands for the dashboard, the address and the range; `tick` for time passing.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, tick]);

  useEffect(() => () => last.current.running?.abort(), []);
  return resolved;
}
