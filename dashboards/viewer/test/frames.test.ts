// SPDX-License-Identifier: Apache-2.0
import type { DataFrame } from '@grafana/data';
import { beforeAll, describe, expect, it } from 'vitest';

import type { PromSeries } from '../src/api/prometheus';
import { parseSample, toSeries } from '../src/api/prometheus';
import { legend, toFrames } from '../src/query/frames';
import { partitionFrame } from '../src/query/partition';
import { jaegerTags } from '../src/query/run';
import { registerTransformers, transform, UnknownTransformation } from '../src/query/transform';

beforeAll(registerTransformers);

const series = (labels: Record<string, string>, ...values: Array<[number, string]>): PromSeries => ({ metric: labels, values });
const column = (frame: DataFrame, name: string): unknown[] | undefined => frame.fields.find((field) => field.name === name)?.values;

describe('frames', () => {
  it('makes one frame a series and gaps of non-finite samples', () => {
    const [frame] = toFrames({ refId: 'A', legendFormat: '{{run}}' }, [series({ __name__: 'loss', run: 'r' }, [1, '2.5'], [2, 'NaN'], [3, '+Inf'])]);
    expect(column(frame, 'Time')).toEqual([1000, 2000, 3000]);
    expect(column(frame, 'loss')).toEqual([2.5, null, null]);
    expect(frame.fields[1].config.displayNameFromDS).toBe('r');
    expect(frame.fields[1].labels).toEqual({ run: 'r' });
  });
  it('makes one table of all series, with a column for each label', () => {
    const [frame] = toFrames({ refId: 'B', format: 'table' }, [series({ a: '1' }, [1, '5']), series({ b: '2' }, [1, 'NaN'])], { severalTables: true });
    expect(frame.fields.map((field) => field.name)).toEqual(['Time', 'a', 'b', 'Value #B']);
    expect(column(frame, 'a')).toEqual(['1', '']);
    expect(column(frame, 'Value #B')).toEqual([5, NaN]);
  });
  it('makes no table of nothing', () => {
    expect(toFrames({ refId: 'A', format: 'table' }, [])).toEqual([]);
  });
  it('takes cumulated buckets apart for a heatmap', () => {
    const frames = toFrames({ refId: 'A', format: 'heatmap' }, [series({ le: '+Inf' }, [1, '10']), series({ le: '1' }, [1, '4'])]);
    expect(frames.map((frame) => frame.fields[1].values[0])).toEqual([4, 6]);
  });
  it('reads vectors, scalars and spelled infinities', () => {
    expect(toSeries({ resultType: 'vector', result: [{ metric: { a: 'b' }, value: [1, '2'] }] })).toEqual([series({ a: 'b' }, [1, '2'])]);
    expect(toSeries({ resultType: 'scalar', result: [1, '2'] })).toEqual([series({}, [1, '2'])]);
    expect(['+Inf', '-Inf', '1e3'].map(parseSample)).toEqual([Infinity, -Infinity, 1000]);
  });
});

describe('legends', () => {
  const metric = { __name__: 'm', a: 'x', b: '"q"' };
  it.each([
    ['{{a}} and {{nothing}}', 'x and nothing'],
    [undefined, 'm{a="x", b="\\"q\\""}'],
    ['__auto', undefined],
  ])('%s', (format, expected) => {
    expect(legend({ legendFormat: format }, metric)).toBe(expected);
  });
  it('uses the query where nothing else names the series', () => {
    expect(legend({}, {}, 'sum(m)')).toBe('sum(m)');
  });
});

describe('transformations', () => {
  const loss = series({ run: 'a' }, [1, '9'], [2, '8']);
  const tables = () => [
    ...toFrames({ refId: 'A', format: 'table' }, [loss, series({ run: 'b' }, [2, '7'])], { severalTables: true }),
    ...toFrames({ refId: 'B', format: 'table' }, [series({ run: 'a' }, [1, '10'], [2, '20']), series({ run: 'b' }, [2, '15'])], { severalTables: true }),
  ];
  const none = () => undefined;
  it('joins metric and step and parts them by run', async () => {
    const frames = await transform(
      [
        { id: 'merge', options: {} },
        { id: 'partitionByValues', options: { fields: ['run'], keepFields: false, naming: { asLabels: false } } },
      ],
      tables(),
      none
    );
    expect(frames.map((frame) => frame.name)).toEqual(['a', 'b']);
    expect(column(frames[0], 'Value #A')).toEqual([9, 8]);
    expect(column(frames[0], 'Value #B')).toEqual([10, 20]);
    expect(column(frames[0], 'run')).toBeUndefined();
  });
  it('makes a matrix with ascending steps for a trend', async () => {
    const [frame] = await transform(
      [
        { id: 'merge', options: {} },
        { id: 'groupingToMatrix', options: { rowField: 'Value #B', columnField: 'run', valueField: 'Value #A', emptyValue: 'null' } },
        { id: 'sortBy', options: { fields: {}, sort: [{ field: 'Value #B\\run', desc: false }] } },
      ],
      tables(),
      none
    );
    expect(frame.fields[0].values.map(Number)).toEqual([10, 15, 20]);
  });
  it('says which transformation it does not know', async () => {
    await expect(transform([{ id: 'regressionOfTheFuture', options: {} }], tables(), none)).rejects.toThrow(UnknownTransformation);
  });
  it('names parts by field and as labels when asked', () => {
    const frame = tables()[0];
    const parts = partitionFrame(frame, { fields: ['run'], keepFields: true, naming: { asLabels: true, withNames: true, separator1: ': ' } });
    expect(parts[0].name).toBe('run: a');
    expect(parts[0].fields.at(-1)?.labels).toEqual({ run: 'a' });
    expect(column(parts[0], 'run')).toEqual(['a', 'a']);
  });
  it('does not mix up values that only look alike when joined', () => {
    const frame = toFrames({ refId: 'A', format: 'table' }, [series({ x: 'a b', y: 'c' }, [1, '1']), series({ x: 'a', y: 'b c' }, [1, '2'])])[0];
    expect(partitionFrame(frame, { fields: ['x', 'y'] })).toHaveLength(2);
  });
});

it('turns logfmt tags into what Jaeger asks for', () => {
  expect(jaegerTags('run.id="a b" error=true')).toBe('{"run.id":"a b","error":"true"}');
  expect(jaegerTags('{"a":"b"}')).toBe('{"a":"b"}');
  expect(jaegerTags('')).toBe('');
});
