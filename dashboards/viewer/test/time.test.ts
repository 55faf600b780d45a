// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { alignedWindow, durationText, intervalMacros, resolution } from '../src/query/interval';
import { panelRange, parseDuration, rawToText, resolveRange } from '../src/time/range';

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);

beforeEach(() => void vi.useFakeTimers({ now: NOW }));
afterEach(() => void vi.useRealTimers());

describe('ranges', () => {
  it('reads relative ranges', () => {
    const range = resolveRange('now-15m', 'now');
    expect([range.from.valueOf(), range.to.valueOf()]).toEqual([NOW - 900_000, NOW]);
    expect(range.raw).toEqual({ from: 'now-15m', to: 'now' });
  });
  it('rounds down the start and up the end', () => {
    const range = resolveRange('now/d', 'now/d', 'utc');
    expect(range.to.valueOf() - range.from.valueOf()).toBe(86_400_000 - 1);
  });
  it('reads epoch milliseconds and ISO dates', () => {
    const range = resolveRange('1700000000000', '2026-01-01T00:00:00Z', 'utc');
    expect([range.from.valueOf(), range.to.valueOf()]).toEqual([1_700_000_000_000, Date.UTC(2026, 0, 1)]);
    expect(rawToText(range.raw.from)).toBe('1700000000000');
  });
  it.each([
    ['nonsense', 'now'],
    ['now', 'now-1h'],
    ['now-15q', 'now'],
  ])('falls back to the last 15 minutes for %s to %s', (from, to) => {
    const range = resolveRange(from, to);
    expect(range.to.valueOf() - range.from.valueOf()).toBe(900_000);
  });
  it('applies a panel’s own window', () => {
    const range = resolveRange('now-15m', 'now');
    expect(panelRange(range, '1h').from.valueOf()).toBe(NOW - 3_600_000);
    expect(panelRange(range, null, '1d').to.valueOf()).toBe(NOW - 86_400_000);
    expect(panelRange(range)).toBe(range);
  });
});

it.each([
  ['10s', 10_000],
  ['>5s', 5000],
  ['500ms', 500],
  ['1h', 3_600_000],
  ['', undefined],
  ['soon', undefined],
  [null, undefined],
])('reads the duration %s', (text, expected) => {
  expect(parseDuration(text)).toBe(expected);
});

describe('resolution', () => {
  const range = () => resolveRange('now-15m', 'now');
  it('gives one point a pixel, but none finer than a second', () => {
    expect(resolution({ range: range(), maxDataPoints: 450 }).intervalMs).toBe(2000);
    expect(resolution({ range: range(), maxDataPoints: 10_000 }).intervalMs).toBe(1000);
  });
  it('honours minimum intervals, the target’s before the panel’s', () => {
    expect(resolution({ range: range(), maxDataPoints: 10_000, panelInterval: '10s' }).intervalMs).toBe(10_000);
    expect(resolution({ range: range(), maxDataPoints: 10_000, panelInterval: '10s', targetInterval: '1m' }).intervalMs).toBe(60_000);
  });
  it('never asks for more points than Prometheus gives', () => {
    const long = resolveRange('now-365d', 'now');
    const { intervalMs } = resolution({ range: long, maxDataPoints: 1_000_000 });
    expect((365 * 86_400_000) / intervalMs).toBeLessThanOrEqual(11_000);
  });
  it('makes the rate interval four scrapes, or a step and a scrape', () => {
    expect(resolution({ range: range(), maxDataPoints: 450 }).rateIntervalMs).toBe(60_000);
    expect(resolution({ range: range(), maxDataPoints: 450, timeInterval: '5s' }).rateIntervalMs).toBe(20_000);
    expect(resolution({ range: range(), maxDataPoints: 5 }).rateIntervalMs).toBeGreaterThan(60_000);
  });
  it('spells the macros', () => {
    expect(intervalMacros({ intervalMs: 2000, rateIntervalMs: 60_000, rangeMs: 900_000 })).toMatchObject({
      __interval: '2s',
      __interval_ms: '2000',
      __rate_interval: '1m',
      __range: '900s',
      __range_s: '900',
    });
    expect([1500, 3_600_000, 86_400_000].map(durationText)).toEqual(['1500ms', '1h', '1d']);
  });
  it('aligns the window to the step', () => {
    const { start, end, step } = alignedWindow(range(), 2000);
    expect([start % 2, end % 2, step]).toEqual([0, 0, 2]);
    expect(end).toBeLessThanOrEqual(NOW / 1000);
  });
});
