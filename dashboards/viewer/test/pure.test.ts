// SPDX-License-Identifier: Apache-2.0
import { createTheme, FieldType } from '@grafana/data';
import type { DataFrame } from '@grafana/data';
import { beforeAll, describe, expect, it } from 'vitest';

import { foldAnnotations } from '../src/annotations/fold';
import { errorText } from '../src/api/http';
import { parseLogLines } from '../src/api/logs';
import type { Alert } from '../src/api/server';
import { ago, firingFor, orderAlerts, runbookHref } from '../src/chrome/alerts';
import { toggleSeries } from '../src/dashboard/hiddenSeries';
import { boxOf, expandRepeats, placePanels } from '../src/dashboard/layout';
import type { Panel } from '../src/dashboard/model';
import { panelState } from '../src/dashboard/panelState';
import { registerFieldConfig, withFieldConfig } from '../src/fields/registry';
import { levelOf } from '../src/panels/logs';
import { stateRows, statesSeen } from '../src/panels/states';
import { xySeries } from '../src/panels/xy';
import { buildGrid, labelledRows, paintGrid } from '../src/plot/grid';
import { withoutCommonEnds } from '../src/plot/rowPlot';
import { buildWaterfall, durationLabel } from '../src/trace/model';

beforeAll(registerFieldConfig);

describe('annotations', () => {
  const query = { name: 'forks', titleFormat: 'fork {{run}}', textFormat: 'from {{parent}}', tagKeys: 'run, parent' };
  const metric = { run: 'b', parent: 'a' };
  it('takes the value for the time and one event of equal values', () => {
    const values: Array<[number, string]> = [[1, '5000'], [11, '5000'], [21, '95000']];
    const events = foldAnnotations({ ...query, useValueForTime: true }, [{ metric, values }], 10_000, 'red');
    expect(events.map((e) => e.time)).toEqual([5000, 95_000]);
    expect(events[0]).toMatchObject({ title: 'fork b', text: 'from a', tags: ['b', 'a'], color: 'red', source: 'forks' });
  });
  it('joins neighbours above zero into regions', () => {
    const values: Array<[number, string]> = [[0, '0'], [10, '1'], [20, '1'], [30, '0'], [60, '1']];
    expect(foldAnnotations(query, [{ metric, values }], 10_000, 'red').map((e) => [e.time, e.timeEnd])).toEqual([[10_000, 20_000], [60_000, undefined]]);
  });
  it('ignores what is no time', () => {
    expect(foldAnnotations({ ...query, useValueForTime: true }, [{ metric, values: [[1, 'NaN'], [2, '-5'], [3, '+Inf']] }], 1000, 'red')).toEqual([]);
  });
});

const panel = (id: number, type: string, y: number, extra: Partial<Panel> = {}): Panel => ({ id, type, gridPos: { x: 0, y, w: 12, h: 8 }, ...extra });

describe('layout', () => {
  const row = (id: number, y: number, extra: Partial<Panel> = {}) => panel(id, 'row', y, { gridPos: { x: 0, y, w: 24, h: 1 }, ...extra });
  it('closes an open row and brings what is below up', () => {
    const panels = [row(1, 0), panel(2, 'stat', 1), row(3, 9), panel(4, 'stat', 10)];
    const placed = placePanels(panels, new Map([[1, true]]));
    expect(placed.map((p) => [p.id, p.gridPos.y])).toEqual([[1, 0], [3, 1], [4, 2]]);
  });
  it('opens a closed row and pushes what is below down', () => {
    const panels = [row(1, 0, { collapsed: true, panels: [panel(2, 'stat', 1)] }), row(3, 1), panel(4, 'stat', 2)];
    expect(placePanels(panels, new Map()).map((p) => p.id)).toEqual([1, 3, 4]);
    expect(placePanels(panels, new Map([[1, false]])).map((p) => [p.id, p.gridPos.y])).toEqual([[1, 0], [2, 1], [3, 9], [4, 10]]);
  });
  it('repeats a panel for each value and pushes down', () => {
    const variables = new Map([['run', { value: ['a', 'b', 'c'] }]]);
    const placed = expandRepeats([panel(1, 'stat', 0, { repeat: 'run', maxPerRow: 2 }), panel(2, 'stat', 8)], variables);
    expect(placed.map((p) => [p.gridPos.x, p.gridPos.y, p.gridPos.w])).toEqual([[0, 0, 12], [12, 0, 12], [0, 8, 12], [0, 16, 12]]);
    expect(placed[1].scopedVars?.run?.value).toBe('b');
  });
  it('lays 24 columns over the width', () => {
    expect(boxOf(panel(1, 'stat', 0), 1208)).toEqual({ left: 0, top: 0, width: 600, height: 296 });
  });
});

describe('states of a panel', () => {
  const result = (frames: DataFrame[], errors: string[] = []) => ({ loading: false, result: { frames, errors, range: {} as never } });
  const number = (...values: Array<number | null>): DataFrame => ({ length: values.length, fields: [{ name: 'v', type: FieldType.number, config: {}, values }] });
  it('tells them apart', () => {
    expect(panelState(panel(1, 'stat', 0), { loading: true }, true).state).toBe('loading');
    expect(panelState(panel(1, 'stat', 0), result([number(1)]), true).state).toBe('ok');
    expect(panelState(panel(1, 'stat', 0), result([]), true).state).toBe('nodata');
    expect(panelState(panel(1, 'stat', 0), result([number(null, null)]), true).state).toBe('nodata');
    expect(panelState(panel(1, 'stat', 0), result([], ['bad']), true)).toEqual({ state: 'error', error: 'bad' });
    expect(panelState(panel(1, 'weird', 0), { loading: true }, false).error).toContain('weird');
  });
  it('takes nothing for an answer where the dashboard says so', () => {
    const quiet = panel(1, 'stat', 0, { fieldConfig: { defaults: { noValue: 'none' }, overrides: [] } });
    expect(panelState(quiet, result([]), true)).toEqual({ state: 'ok', noValue: 'none' });
    expect(panelState({ ...quiet, type: 'heatmap' }, result([]), true).state).toBe('nodata');
  });
});

describe('grid', () => {
  const row = (name: string, ...values: Array<number | null>): DataFrame => ({
    name,
    length: values.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: values.map((_, i) => 1000 * (i + 1)) },
      { name: 'Value', type: FieldType.number, config: { displayNameFromDS: name }, values },
    ],
  });
  it('is dense, with holes where nothing was measured', () => {
    const grid = buildGrid([row('a', 1, null, 3), row('b', 4)]);
    expect([...grid.values]).toEqual([1, NaN, 3, 4, NaN, NaN]);
    expect([grid.min, grid.max, grid.stepMs]).toEqual([1, 4, 1000]);
  });
  it('sorts rows by number when all names are numbers, else keeps their order', () => {
    expect(buildGrid([row('10', 1), row('9', 1)]).rows).toEqual(['9', '10']);
    expect(buildGrid([row('b', 1), row('a', 1)]).rows).toEqual(['b', 'a']);
  });
  it('lets the outlier win where rows share a pixel', () => {
    const palette = new Uint32Array(256).map((_, i) => i + 1);
    const grid = buildGrid([row('a', 0), row('b', 9), row('c', 0), row('d', 0)]);
    expect([...paintGrid(grid, 2, { palette, min: 0, max: 9 })]).toEqual([1, 256]);
  });
  it('paints ten thousand rows by three hundred columns', () => {
    const times = Array.from({ length: 300 }, (_, i) => i * 1000);
    const frames = Array.from({ length: 10_000 }, (_, r): DataFrame => ({
      length: 300,
      fields: [
        { name: 'Time', type: FieldType.time, config: {}, values: times },
        { name: 'Value', type: FieldType.number, config: { displayNameFromDS: `layer ${r}` }, values: times.map((t) => t + r) },
      ],
    }));
    const grid = buildGrid(frames);
    const pixels = paintGrid(grid, 400, { palette: new Uint32Array(256).fill(7), min: grid.min, max: grid.max });
    expect([grid.rows.length, grid.times.length, pixels.length]).toEqual([10_000, 300, 120_000]);
    expect(pixels.every((p) => p === 7)).toBe(true);
  });
  it('labels as many rows as fit', () => {
    expect(labelledRows(4, 100)).toEqual([0, 1, 2, 3]);
    expect(labelledRows(10, 75)).toEqual([0, 2, 4, 6, 8]);
  });
  it('drops what all names share, between words only', () => {
    expect(withoutCommonEnds(['m.block.1.weight', 'm.block.10.weight'])).toEqual(['…1…', '…10…']);
    expect(withoutCommonEnds(['a', 'b'])).toEqual(['a', 'b']);
  });
});

describe('states over time', () => {
  const frames = (values: number[], times: number[]): DataFrame[] => [
    {
      length: values.length,
      fields: [
        { name: 'Time', type: FieldType.time, config: { interval: 1000 }, values: times },
        { name: 'v', type: FieldType.number, config: { displayNameFromDS: 'rank 0' }, values, display: (v) => ({ text: `s${String(v)}`, numeric: Number(v), color: 'red' }) },
      ],
    },
  ];
  it('merges equal neighbours and leaves gaps blank', () => {
    const [row] = stateRows(frames([0, 0, 1, 1], [0, 1000, 2000, 9000]), true);
    expect(row.stretches.map((s) => [s.from, s.to, s.text])).toEqual([[0, 2000, 's0'], [2000, 3000, 's1'], [9000, 10_000, 's1']]);
    expect(statesSeen([row]).map((s) => s.text)).toEqual(['s0', 's1']);
  });
});

it('pairs fields of an XY chart by name, a series for each frame', () => {
  const frame = (name: string): DataFrame => ({
    name,
    length: 1,
    fields: ['Value #A', 'Value #B'].map((n) => ({ name: n, type: FieldType.number, config: {}, values: [1] })),
  });
  const by = (options: string) => ({ matcher: { id: 'byName', options } });
  const found = xySeries([frame('a'), frame('b')], 'auto', [{ x: by('Value #B'), y: by('Value #A') }]);
  expect(found.map((s) => [s.name, s.x.name, s.y.name])).toEqual([['a', 'Value #B', 'Value #A'], ['b', 'Value #B', 'Value #A']]);
});

it('applies units, defaults and safe links to fields and leaves the dashboard alone', () => {
  const stat = panel(1, 'stat', 0, {
    fieldConfig: { defaults: { unit: 'percentunit', links: [{ title: 'go ${__value.raw}', url: '/x/${__value.raw}' }] }, overrides: [{ matcher: { id: 'byName', options: 'v' }, properties: [{ id: 'custom.width', value: 50 }] }] },
  });
  const before = JSON.stringify(stat);
  const context = { theme: createTheme(), timeZone: 'utc', lookup: () => undefined, urlMacros: {} };
  const [frame] = withFieldConfig([{ length: 1, fields: [{ name: 'v', type: FieldType.number, config: {}, values: [0.5] }] }], stat, context);
  const [field] = frame.fields;
  expect(field.display?.(0.5).suffix).toBe('%');
  expect(field.config.custom).toEqual({ width: 50 });
  expect(field.config.color?.mode).toBe('thresholds');
  expect(field.getLinks?.({ valueRowIndex: 0 })).toMatchObject([{ href: '/x/0.5', title: 'go 0.5' }]);
  expect(JSON.stringify(stat)).toBe(before);
});

it('isolates a series, shows all again, and toggles one', () => {
  const all = ['a', 'b', 'c'];
  const alone = toggleSeries(new Set(), 'a', all, false);
  expect([...alone]).toEqual(['b', 'c']);
  expect([...toggleSeries(alone, 'a', all, false)]).toEqual([]);
  expect([...toggleSeries(new Set(['b']), 'c', all, true)]).toEqual(['b', 'c']);
});

describe('alerts', () => {
  const alert = (name: string, status: Alert['status'], startsAt: string, labels = {}): Alert => ({
    fingerprint: name, status, labels: { alertname: name, ...labels }, annotations: {}, startsAt,
  });
  const list = [
    alert('Old', 'resolved', '2026-01-03T00:00:00Z'),
    alert('Warn', 'firing', '2026-01-02T00:00:00Z', { severity: 'warning', run_id: 'a' }),
    alert('Crit', 'firing', '2026-01-01T00:00:00Z', { severity: 'critical', run_id: 'b' }),
    alert('Stack', 'firing', '2026-01-01T00:00:00Z'),
  ];
  it('puts firing first, the gravest on top', () => {
    expect(orderAlerts(list).map((a) => a.labels.alertname)).toEqual(['Crit', 'Warn', 'Stack', 'Old']);
  });
  it('keeps those of the selected runs and of no run', () => {
    expect(firingFor(list, ['a']).map((a) => a.labels.alertname)).toEqual(['Warn', 'Stack']);
    expect(firingFor(list, 'all')).toHaveLength(3);
  });
  it('finds our own runbook page whatever host the link names', () => {
    expect(runbookHref({ ...list[0], annotations: { runbook_url: 'http://x.example/runbooks/Old' } })).toBe('/runbooks/Old');
    expect(runbookHref({ ...list[0], annotations: { runbook_url: 'https://wiki.example/old' } })).toBe('https://wiki.example/old');
    expect(runbookHref(list[0])).toBe('/runbooks/Old');
  });
  it('says how long', () => {
    expect([5, 65, 3700, 200_000].map((s) => ago(0, s * 1000))).toEqual(['5 s', '1 min 5 s', '1 h 1 min', '2 d 7 h']);
  });
});

describe('traces', () => {
  const span = (spanID: string, rank: string, startTime: number, parent?: string) => ({
    traceID: 't', spanID, operationName: spanID, startTime, duration: 10, processID: `p${rank}`,
    references: parent ? [{ refType: 'CHILD_OF', traceID: 't', spanID: parent }] : [],
  });
  const processes = Object.fromEntries(['0', '10', '2'].map((r) => [`p${r}`, { serviceName: 'train', tags: [{ key: 'dist.rank', value: r }] }]));
  it('groups by rank in numeric order and nests by parent', () => {
    const trace = { traceID: 't', processes, spans: [span('c', '2', 5, 'a'), span('x', '10', 3), span('a', '2', 1), span('b', '2', 2, 'a'), span('y', '0', 0, 'elsewhere')] };
    const waterfall = buildWaterfall(trace);
    expect(waterfall.groups.map((g) => g.title)).toEqual(['rank 0', 'rank 2', 'rank 10']);
    expect(waterfall.groups[1].rows.map((r) => [r.span.spanID, r.depth, r.offset])).toEqual([['a', 0, 1], ['b', 1, 2], ['c', 1, 5]]);
    expect(waterfall.duration).toBe(15);
  });
  it('shows spans whose parents form a circle', () => {
    const trace = { traceID: 't', processes, spans: [span('a', '0', 1, 'b'), span('b', '0', 2, 'a')] };
    expect(buildWaterfall(trace).groups[0].rows).toHaveLength(2);
  });
  it('writes durations', () => {
    expect([12, 1234, 20_000, 2_500_000].map(durationLabel)).toEqual(['12 µs', '1.23 ms', '20 ms', '2.50 s']);
  });
});

it('reads log lines and leaves out what is cut off', () => {
  const [line, ...rest] = parseLogLines('{"_time":"2026-01-01T00:00:00Z","_msg":"hi","dist.rank":1}\n{"_time":"20');
  expect(line).toEqual({ time: Date.UTC(2026, 0, 1), message: 'hi', fields: { 'dist.rank': '1' } });
  expect(rest).toEqual([]);
  expect(['WARN', 'error', 'INFO', 'debug', ''].map((severity) => levelOf({ severity }))).toEqual(['warning', 'error', 'info', 'debug', 'info']);
});

it('finds the text in error answers', () => {
  expect(errorText('{"status":"error","error":"bad query"}', 422)).toBe('bad query');
  expect(errorText('{"detail":"no"}', 404)).toBe('no');
  expect(errorText('<html>', 502)).toBe('The server answered 502.');
  expect(errorText('x'.repeat(1000), 500)).toHaveLength(401);
});
