// SPDX-License-Identifier: Apache-2.0
// What a variable can be set to: in go its model and the data sources, out come options. Choosing among them is choose.ts.
import type { TimeRange } from '@grafana/data';

import { labelNames, labelValues, queryInstant } from '../api/prometheus';
import type { DataSource } from '../api/server';
import type { VariableModel } from '../dashboard/model';
import { findDataSource, kindOf } from '../query/datasource';
import type { Lookup } from '../query/interpolate';
import { interpolate } from '../query/interpolate';

export interface Option {
  value: string;
  text: string;
}

/** A drop-down with more entries than this helps nobody; a regular expression in the dashboard narrows it. */
const MOST_OPTIONS = 5000;

export interface OptionContext {
  lookup: Lookup;
  sources: DataSource[];
  range: TimeRange;
  signal: AbortSignal;
}

export const queryText = (model: VariableModel): string =>
  (typeof model.query === 'object' ? model.query?.query : model.query) ?? model.definition ?? '';

export async function loadOptions(model: VariableModel, context: OptionContext): Promise<Option[]> {
  switch (model.type) {
    case 'query':
      return queryOptions(model, context);
    case 'datasource': {
      const wanted = queryText(model);
      const matches = regexOf(model.regex);
      return context.sources
        .filter((source) => source.type === wanted && (!matches || matches.test(source.name)))
        .map((source) => ({ value: source.uid, text: source.name }));
    }
    case 'custom':
      return customOptions(queryText(model));
    case 'interval':
      return queryText(model).split(',').map((x) => x.trim()).filter(Boolean).map((x) => ({ value: x, text: x }));
    case 'constant':
      return [{ value: queryText(model), text: queryText(model) }];
    default:
      return [];
  }
}

/** "a,b,Shown : value", with "\," for a comma inside a value. */
export function customOptions(text: string): Option[] {
  return (text.match(/(?:\\,|[^,])+/g) ?? [])
    .map((entry) => entry.replaceAll('\\,', ',').trim())
    .filter(Boolean)
    .map((entry) => {
      const pair = /^(.+?)\s:\s(.+)$/.exec(entry);
      return pair ? { text: pair[1].trim(), value: pair[2].trim() } : { text: entry, value: entry };
    });
}

const LABEL_VALUES = /^label_values\(\s*(?:([^]+?)\s*,\s*)?([a-zA-Z_$][\w$]*)\s*\)\s*$/;
const LABEL_NAMES = /^label_names\((?:.*)\)\s*$/;
const METRICS = /^metrics\((.*)\)\s*$/;
const QUERY_RESULT = /^query_result\(([^]+)\)\s*$/;

async function queryOptions(model: VariableModel, { lookup, sources, range, signal }: OptionContext): Promise<Option[]> {
  const source = findDataSource(model.datasource, undefined, sources, lookup);
  if (kindOf(source.type) !== 'prometheus') {
    throw new Error(`Variables from "${source.type}" are not supported by the viewer.`);
  }
  const text = interpolate(queryText(model), lookup, 'promql').trim();
  const window = { start: range.from.valueOf() / 1000, end: range.to.valueOf() / 1000 };
  let values: string[];
  let match: RegExpExecArray | null;
  if ((match = LABEL_VALUES.exec(text))) {
    values = await labelValues(source.uid, match[2], match[1], window, signal);
  } else if (LABEL_NAMES.test(text)) {
    values = await labelNames(source.uid, window, signal);
  } else if ((match = METRICS.exec(text))) {
    const wanted = new RegExp(match[1] || '.*');
    values = (await labelValues(source.uid, '__name__', undefined, window, signal)).filter((name) => wanted.test(name));
  } else {
    const expr = QUERY_RESULT.exec(text)?.[1] ?? text;
    const series = await queryInstant(source.uid, expr, window.end, signal);
    values = series.map(({ metric, values: samples }) => {
      const { __name__, ...labels } = metric;
      const pairs = Object.entries(labels).map(([k, v]) => `${k}="${v}"`);
      return `${__name__ ?? ''}{${pairs.join(',')}} ${samples[0]?.[1] ?? ''} ${(samples[0]?.[0] ?? 0) * 1000}`;
    });
  }
  return sortOptions(unique(applyRegex(values, model.regex)), model.sort ?? 0).slice(0, MOST_OPTIONS);
}

function unique(options: Option[]): Option[] {
  return [...new Map(options.map((option) => [option.value, option])).values()];
}

function regexOf(text: string | undefined): RegExp | undefined {
  if (!text) {
    return undefined;
  }
  const literal = /^\/([^]*)\/([gimsuy]*)$/.exec(text);
  return literal ? new RegExp(literal[1], literal[2].replace('g', '')) : new RegExp(text);
}

/** Without groups the regex filters; with a group it cuts; the groups "text" and "value" name both. */
export function applyRegex(values: string[], regex: string | undefined): Option[] {
  const pattern = regexOf(regex);
  if (!pattern) {
    return values.map((value) => ({ value, text: value }));
  }
  return values.flatMap((raw) => {
    const match = pattern.exec(raw);
    if (!match) {
      return [];
    }
    const value = match.groups?.value ?? match.groups?.text ?? match[1] ?? raw;
    return [{ value, text: match.groups?.text ?? value }];
  });
}

/** Grafana's numbers: 1/2 alphabetical, 3/4 numerical, 5/6 ignoring case, 7/8 natural; even ones descend. */
export function sortOptions(options: Option[], sort: number): Option[] {
  if (sort === 0) {
    return options;
  }
  const firstNumber = (text: string) => Number(/\d+(\.\d+)?/.exec(text)?.[0] ?? -Infinity);
  const compare = [
    (a: Option, b: Option) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0),
    (a: Option, b: Option) => firstNumber(a.text) - firstNumber(b.text),
    (a: Option, b: Option) => a.text.toLowerCase().localeCompare(b.text.toLowerCase()),
    (a: Option, b: Option) => a.text.localeCompare(b.text, undefined, { numeric: true }),
  ][Math.floor((sort - 1) / 2)];
  const sorted = [...options].sort(compare);
  return sort % 2 === 0 ? sorted.reverse() : sorted;
}
