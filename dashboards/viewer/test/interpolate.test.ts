// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';

import type { VariableValue } from '../src/query/interpolate';
import { interpolate, variableNames } from '../src/query/interpolate';

const values: Record<string, VariableValue> = {
  run: { value: ['a', 'b.c'], text: ['A', 'B'], multi: true },
  one: { value: ['x|y"z\\'], multi: true },
  all: { value: ['$__all'], multi: true, allValue: '.*', options: ['p', 'q'] },
  listed: { value: ['$__all'], multi: true, options: ['p', 'q+'] },
  plain: { value: 'say "hi" \\ there' },
  nested: { value: '$run' },
  __from: { value: '1700000000123' },
};
const lookup = (name: string) => values[name];
const promql = (text: string) => interpolate(text, lookup, 'promql');
const url = (text: string) => interpolate(text, lookup, 'url');

describe('values in PromQL', () => {
  it('joins several values into one escaped regular expression', () => {
    expect(promql('m{run=~"$run"}')).toBe('m{run=~"(a|b\\\\.c)"}');
  });
  it('escapes a hostile value for the regular expression and for the string around it', () => {
    expect(promql('m{run=~"$one"}')).toBe('m{run=~"x\\\\|y\\"z\\\\\\\\"}');
  });
  it('uses the all-value as it is and else lists all options', () => {
    expect(promql('m{run=~"$all"}')).toBe('m{run=~".*"}');
    expect(promql('m{run=~"$listed"}')).toBe('m{run=~"(p|q\\\\+)"}');
  });
  it('escapes a single value for the string only', () => {
    expect(promql('m{a="$plain"}')).toBe('m{a="say \\"hi\\" \\\\ there"}');
  });
  it('leaves unknown names and label references alone', () => {
    expect(promql('$nobody ${nobody:csv} [[nobody]] {{x}}')).toBe('$nobody ${nobody:csv} [[nobody]] {{x}}');
  });
  it('never expands what a value contains', () => {
    expect(interpolate('$nested', lookup, 'text')).toBe('$run');
  });
  it('reads all three spellings', () => {
    expect(interpolate('$plain|${plain:raw}|[[plain:raw]]', (n) => (n === 'plain' ? { value: 'v' } : undefined), 'text')).toBe('v|v|v');
  });
});

describe('explicit formats', () => {
  it.each([
    ['queryparam', 'var-run=a&var-run=b.c'],
    ['csv', 'a,b.c'],
    ['pipe', 'a|b.c'],
    ['regex', '(a|b\\.c)'],
    ['json', '["a","b.c"]'],
    ['text', 'A + B'],
    ['singlequote', "'a','b.c'"],
    ['doublequote', '"a","b.c"'],
    ['glob', '{a,b.c}'],
    ['percentencode', '%7Ba%2Cb.c%7D'],
  ])('%s', (format, expected) => {
    expect(promql(`\${run:${format}}`)).toBe(expected);
  });
  it('keeps "All" in an address', () => {
    expect(promql('${all:queryparam}')).toBe('var-all=%24__all');
    expect(url('var-all=$all')).toBe('var-all=%24__all');
  });
  it('writes dates', () => {
    expect(promql('${__from:date}')).toBe('2023-11-14T22:13:20.123Z');
    expect(promql('${__from:date:seconds}')).toBe('1700000000');
  });
});

describe('other languages', () => {
  it('makes a quoted list inside in() of LogsQL', () => {
    expect(interpolate('run:in($run)', lookup, 'logsql')).toBe('run:in("a","b.c")');
    expect(interpolate('run:~"$run"', lookup, 'logsql')).toBe('run:~"(a|b\\\\.c)"');
  });
  it('encodes values in addresses', () => {
    expect(interpolate('/d/x?v=$plain', lookup, 'url')).toBe('/d/x?v=say%20%22hi%22%20%5C%20there');
  });
});

it('names the variables that a text depends on', () => {
  expect(variableNames('$a ${b:csv} [[c]] ${d.e}')).toEqual(['a', 'b', 'c', 'd']);
});
