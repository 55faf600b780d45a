// SPDX-License-Identifier: Apache-2.0
// Everything that a template may name, in one lookup: in go variables, a time range and macros, out comes a Lookup.
import type { ScopedVars, TimeRange } from '@grafana/data';

import { rawToText } from '../time/range';
import type { Lookup, VariableValue } from './interpolate';

export type Variables = ReadonlyMap<string, VariableValue>;

export interface DashboardScope {
  variables: Variables;
  range: TimeRange;
  dashboard: { uid: string; title: string };
}

function builtin(name: string, scope: DashboardScope): VariableValue | undefined {
  switch (name) {
    case '__from':
      return { value: String(scope.range.from.valueOf()) };
    case '__to':
      return { value: String(scope.range.to.valueOf()) };
    case '__dashboard':
      return { value: scope.dashboard.title };
    case '__org':
      return { value: '1' };
    default:
      return undefined;
  }
}

/** Address parts that are whole parameters, so they must not be encoded once more. */
export function urlMacros(scope: DashboardScope): Record<string, string> {
  return { __url_time_range: timeParams(scope.range), __all_variables: variableParams(scope.variables) };
}

export function timeParams(range: TimeRange): string {
  return `from=${encodeURIComponent(rawToText(range.raw.from))}&to=${encodeURIComponent(rawToText(range.raw.to))}`;
}

export function variableParams(variables: Variables): string {
  const parts: string[] = [];
  for (const [name, { value }] of variables) {
    for (const item of Array.isArray(value) ? value : [value]) {
      parts.push(`${encodeURIComponent(`var-${name}`)}=${encodeURIComponent(item)}`);
    }
  }
  return parts.join('&');
}

export function makeLookup(scope: DashboardScope, macros: Record<string, string> = {}, scoped?: ScopedVars): Lookup {
  return (name, path) => {
    if (path === undefined && name in macros) {
      return { value: macros[name] };
    }
    const fixed = scoped?.[name];
    if (fixed && path === undefined && !name.startsWith('__')) {
      return { value: String(fixed.value), text: String(fixed.text ?? fixed.value), multi: true };
    }
    const variable = scope.variables.get(name);
    if (variable) {
      return path === 'text' ? { value: variable.text ?? variable.value } : variable;
    }
    if (name === '__dashboard' && path === 'uid') {
      return { value: scope.dashboard.uid };
    }
    return builtin(name, scope);
  };
}
