// SPDX-License-Identifier: Apache-2.0
// Which value a variable has: in go its model, its options and what the address says, out comes the value, as Grafana chooses it.
import type { VariableModel } from '../dashboard/model';
import type { VariableValue } from '../query/interpolate';
import { ALL } from '../query/interpolate';
import type { Option } from './options';
import { queryText } from './options';

export interface Variable extends VariableValue {
  name: string;
  model: VariableModel;
  choices: Option[];
  error?: string;
}

/** What the address asks for ("var-run=a&var-run=b"); undefined when it says nothing. */
export function choose(model: VariableModel, options: Option[], asked: string[] | undefined, error?: string): Variable {
  const multi = Boolean(model.multi);
  const withAll = Boolean(model.includeAll);
  const values = known(pick(model, options, asked), options, withAll);
  const value = multi ? values : (values[0] ?? '');
  const textOf = (v: string) => (v === ALL ? 'All' : (options.find((o) => o.value === v)?.text ?? v));
  return {
    name: model.name,
    model,
    choices: withAll ? [{ value: ALL, text: 'All' }, ...options] : options,
    value,
    text: Array.isArray(value) ? value.map(textOf) : textOf(value),
    multi: multi || withAll,
    allValue: model.allValue || undefined,
    options: options.map((o) => o.value),
    error,
  };
}

function pick(model: VariableModel, options: Option[], asked: string[] | undefined): string[] {
  if (model.type === 'constant') {
    return [queryText(model)];
  }
  if (asked) {
    return asked;
  }
  const current = toList(model.current?.value).filter((v) => v !== '');
  if (model.type === 'textbox') {
    return current.length > 0 ? current : [queryText(model)];
  }
  const offered = current.filter((v) => v === ALL || options.some((o) => o.value === v));
  if (offered.length > 0) {
    return offered;
  }
  return model.includeAll ? [ALL] : options.slice(0, 1).map((o) => o.value);
}

/** The address may say "All" for all, name a data source by its shown name, or name a value that is gone: that one is kept. */
function known(values: string[], options: Option[], withAll: boolean): string[] {
  const mapped = values.map((v) => {
    if (withAll && v === 'All' && !options.some((o) => o.value === 'All')) {
      return ALL;
    }
    return options.some((o) => o.value === v) ? v : (options.find((o) => o.text === v)?.value ?? v);
  });
  return mapped.includes(ALL) ? [ALL] : mapped;
}

/** What the address says after a person picked these: "All" excludes the others, and nothing means "All". */
export function normalisePick(picked: string[], before: string[], includeAll: boolean): string[] {
  if (!includeAll) {
    return picked;
  }
  if (picked.length === 0 || (picked.includes(ALL) && !before.includes(ALL))) {
    return [ALL];
  }
  return picked.filter((v) => v !== ALL);
}

export const toList = (value: string | string[] | undefined): string[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value];
