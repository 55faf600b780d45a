// SPDX-License-Identifier: Apache-2.0
// Grafana's template syntax: in goes a text with $name, ${name:format} or [[name]], out comes the text with values in place.
// One pass only: a value that looks like a variable is never expanded again, and is escaped for the language it lands in.

export const ALL = '$__all';

export interface VariableValue {
  value: string | string[];
  text?: string | string[];
  /** Multi-value or "All" variables are written as regular expressions in queries. */
  multi?: boolean;
  /** What "All" stands for, when the dashboard says so. */
  allValue?: string;
  /** What "All" stands for otherwise. */
  options?: string[];
}

/** Language of the place where a value without an explicit format lands. */
export type Target = 'promql' | 'logsql' | 'text' | 'url';

export type Lookup = (name: string, path: string | undefined) => VariableValue | undefined;

const PATTERN = /\$(\w+)|\[\[(\w+?)(?::(\w+))?\]\]|\$\{(\w+)(?:\.([^:}]+)|(\[[^\]]*\]))?(?::([^}]+))?\}/g;

export function interpolate(template: string, lookup: Lookup, target: Target): string {
  return template.replace(PATTERN, (match, plain, square, squareFormat, braced, dotPath, bracketPath, bracedFormat, offset: number) => {
    const name: string = plain ?? square ?? braced;
    const found = lookup(name, dotPath ?? bracketPath);
    if (!found) {
      return match;
    }
    const format: string | undefined = squareFormat ?? bracedFormat;
    return format ? explicit(name, found, format) : implicit(found, target, template.slice(0, offset));
  });
}

/** Names of the variables that a text depends on. */
export function variableNames(template: string): string[] {
  return [...template.matchAll(PATTERN)].map((m) => m[1] ?? m[2] ?? m[4]);
}

export function isAll(v: VariableValue): boolean {
  return v.value === ALL || (Array.isArray(v.value) && v.value.length === 1 && v.value[0] === ALL);
}

function expand(v: VariableValue): string | string[] {
  return isAll(v) ? (v.options ?? []) : v.value;
}

function implicit(v: VariableValue, target: Target, before: string): string {
  if (isAll(v)) {
    if (target === 'text') {
      return 'All';
    }
    if (target === 'url') {
      // Another dashboard has an "All" of its own.
      return encodeURIComponent(ALL);
    }
    if (v.allValue) {
      return v.allValue;
    }
  }
  const value = expand(v);
  switch (target) {
    case 'promql':
      return v.multi ? regexUnion(value, promqlRegex) : promqlString(scalar(value));
    case 'logsql':
      // VictoriaLogs' in(...) takes a list of quoted words; its other operators take a string or a regular expression.
      if (/\bin\(\s*$/.test(before)) {
        return asList(value).map((x) => JSON.stringify(x)).join(',');
      }
      return v.multi ? regexUnion(value, promqlRegex) : promqlString(scalar(value));
    case 'url':
      return asList(value).map(encodeURIComponent).join(',');
    case 'text':
      return asList(v.text ?? value).join(' + ');
  }
}

function explicit(name: string, v: VariableValue, format: string): string {
  const [kind, ...args] = format.split(':');
  if (kind === 'text') {
    return isAll(v) ? 'All' : asList(v.text ?? v.value).join(' + ');
  }
  if (kind === 'queryparam') {
    return asList(v.value).map((x) => `${encodeURIComponent(`var-${name}`)}=${encodeURIComponent(x)}`).join('&');
  }
  if (isAll(v) && v.allValue && kind !== 'percentencode') {
    return v.allValue;
  }
  const value = expand(v);
  const list = asList(value);
  switch (kind) {
    case 'regex':
      return regexUnion(value, escapeRegex);
    case 'pipe':
      return list.join('|');
    case 'csv':
    case 'raw':
      return list.join(',');
    case 'json':
      return JSON.stringify(value);
    case 'glob':
      return list.length > 1 ? `{${list.join(',')}}` : scalar(value);
    case 'singlequote':
      return list.map((x) => `'${x.replaceAll("'", "\\'")}'`).join(',');
    case 'doublequote':
      return list.map((x) => `"${x.replaceAll('"', '\\"')}"`).join(',');
    case 'percentencode':
      return encodeURIComponent(list.length > 1 ? `{${list.join(',')}}` : scalar(value));
    case 'uriencode':
      return encodeURI(list.length > 1 ? `{${list.join(',')}}` : scalar(value));
    case 'date':
      return dateText(scalar(value), args[0]);
    default:
      return list.join(',');
  }
}

function dateText(value: string, format: string | undefined): string {
  const ms = Number(value);
  if (!Number.isFinite(ms)) {
    return value;
  }
  return format === 'seconds' ? String(Math.floor(ms / 1000)) : new Date(ms).toISOString();
}

const asList = (value: string | string[]): string[] => (Array.isArray(value) ? value : [value]);
const scalar = (value: string | string[]): string => (Array.isArray(value) ? value.join(',') : value);

function regexUnion(value: string | string[], escape: (x: string) => string): string {
  const list = asList(value).map(escape);
  return list.length === 1 ? list[0] : `(${list.join('|')})`;
}

export const escapeRegex = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/** Inside a double-quoted PromQL string. */
export const promqlString = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

/** A regular expression inside a double-quoted PromQL string: both languages' escapes, in that order. RE2 has no \/. */
export const promqlRegex = (text: string): string => promqlString(text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
