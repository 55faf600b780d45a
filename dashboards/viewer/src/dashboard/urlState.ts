// SPDX-License-Identifier: Apache-2.0
// The dashboard's state in the address, spelled as Grafana spells it: var-NAME (repeated), from, to, refresh, viewPanel.
// In goes a query string, out comes the state, and back.
export interface UrlState {
  from?: string;
  to?: string;
  refresh?: string;
  viewPanel?: number;
  variables: Map<string, string[]>;
}

const VARIABLE = 'var-';

export function parseUrlState(search: string): UrlState {
  const params = new URLSearchParams(search);
  const variables = new Map<string, string[]>();
  for (const [name, value] of params) {
    if (name.startsWith(VARIABLE)) {
      const key = name.slice(VARIABLE.length);
      variables.set(key, [...(variables.get(key) ?? []), value]);
    }
  }
  const view = Number(params.get('viewPanel')?.replace(/^panel-/, ''));
  return {
    from: params.get('from') ?? undefined,
    to: params.get('to') ?? undefined,
    refresh: params.get('refresh') ?? undefined,
    viewPanel: Number.isInteger(view) && view > 0 ? view : undefined,
    variables,
  };
}

export type UrlChange = Partial<Record<'from' | 'to' | 'refresh' | 'viewPanel', string | null>> & { variables?: Record<string, string[]> };

/** Parameters that the viewer does not know stay as they are. */
export function changeUrlState(search: string, change: UrlChange): string {
  const params = new URLSearchParams(search);
  const { variables, ...plain } = change;
  for (const [name, value] of Object.entries(plain)) {
    if (value === null) {
      params.delete(name);
    } else if (value !== undefined) {
      params.set(name, value);
    }
  }
  for (const [name, values] of Object.entries(variables ?? {})) {
    params.delete(VARIABLE + name);
    values.forEach((value) => params.append(VARIABLE + name, value));
  }
  return params.toString();
}
