// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';

import { changeUrlState, parseUrlState } from '../src/dashboard/urlState';
import type { VariableModel } from '../src/dashboard/model';
import { choose, normalisePick } from '../src/variables/choose';
import { applyRegex, customOptions, sortOptions } from '../src/variables/options';

const options = ['a', 'b', 'c'].map((value) => ({ value, text: value.toUpperCase() }));
const model = (extra: Partial<VariableModel> = {}): VariableModel => ({ name: 'run', type: 'query', ...extra });

describe('choice', () => {
  it('takes what the address says, by value or by shown name', () => {
    expect(choose(model({ multi: true }), options, ['a', 'C']).value).toEqual(['a', 'c']);
    expect(choose(model(), options, ['b']).value).toBe('b');
  });
  it('keeps a value that the store no longer lists', () => {
    expect(choose(model(), options, ['gone']).value).toBe('gone');
  });
  it('starts with the saved value, else with All, else with the first', () => {
    expect(choose(model({ current: { value: 'b' } }), options, undefined).value).toBe('b');
    expect(choose(model({ current: { value: 'gone' } }), options, undefined).value).toBe('a');
    expect(choose(model({ multi: true, includeAll: true, allValue: '.*' }), options, undefined)).toMatchObject({ value: ['$__all'], allValue: '.*' });
    expect(choose(model(), [], undefined).value).toBe('');
  });
  it('reads All in both spellings', () => {
    expect(choose(model({ multi: true, includeAll: true }), options, ['All']).value).toEqual(['$__all']);
    expect(choose(model({ multi: true, includeAll: true }), options, ['$__all', 'a']).value).toEqual(['$__all']);
  });
  it('takes constants from the dashboard alone', () => {
    expect(choose(model({ type: 'constant', query: 'fixed' }), [], ['other']).value).toBe('fixed');
    expect(choose(model({ type: 'textbox', query: 'preset' }), [], undefined).value).toBe('preset');
  });
  it('lets All and single values exclude each other', () => {
    expect(normalisePick(['$__all', 'a'], ['$__all'], true)).toEqual(['a']);
    expect(normalisePick(['a', '$__all'], ['a'], true)).toEqual(['$__all']);
    expect(normalisePick([], ['a'], true)).toEqual(['$__all']);
    expect(normalisePick([], ['a'], false)).toEqual([]);
  });
});

describe('options', () => {
  it('reads custom lists with escapes and shown names', () => {
    expect(customOptions('1m, a\\,b,Last hour : 1h')).toEqual([
      { text: '1m', value: '1m' },
      { text: 'a,b', value: 'a,b' },
      { text: 'Last hour', value: '1h' },
    ]);
  });
  it('filters and cuts by regular expression', () => {
    expect(applyRegex(['run-1', 'x', 'run-2'], '/run-(.*)/').map((o) => o.value)).toEqual(['1', '2']);
    expect(applyRegex(['a:1'], '/(?<text>.*):(?<value>.*)/')).toEqual([{ text: 'a', value: '1' }]);
    expect(applyRegex(['a', 'b'], '^a')).toHaveLength(1);
  });
  it.each([
    [0, 'r10 r9 R1'],
    [1, 'R1 r10 r9'],
    [3, 'R1 r9 r10'],
    [4, 'r10 r9 R1'],
    [7, 'R1 r9 r10'],
    [8, 'r10 r9 R1'],
  ])('sorts by Grafana’s number %i', (sort, expected) => {
    const given = ['r10', 'r9', 'R1'].map((value) => ({ value, text: value }));
    expect(sortOptions(given, sort).map((o) => o.value).join(' ')).toBe(expected);
  });
});

describe('address', () => {
  it('goes both ways', () => {
    const search = '?var-run=a&var-run=b%26c&from=now-1h&to=now&refresh=5s&kiosk=1&viewPanel=3';
    const state = parseUrlState(search);
    expect(state).toMatchObject({ from: 'now-1h', to: 'now', refresh: '5s', viewPanel: 3 });
    expect(state.variables.get('run')).toEqual(['a', 'b&c']);
    const changed = changeUrlState(search, { variables: { run: ['$__all'] }, refresh: '', viewPanel: null });
    expect(changed).toBe('from=now-1h&to=now&refresh=&kiosk=1&var-run=%24__all');
  });
});
