// SPDX-License-Identifier: Apache-2.0
// Resolution of a query: in goes the window, the width and the intervals that the dashboard asks for, out come the step and
// the macros $__interval, $__rate_interval and $__range, computed as Grafana's Prometheus data source does.
import type { TimeRange } from '@grafana/data';
import { rangeUtil } from '@grafana/data';

import { parseDuration } from '../time/range';

/** Grafana's assumption when a Prometheus data source names no scrape interval. */
const DEFAULT_SCRAPE_MS = 15_000;
/** Training pushes every step, so lines may be finer than a scrape interval. */
const FINEST_STEP_MS = 1000;
/** Prometheus refuses more points than this in one series. */
const MOST_POINTS = 11_000;

export interface Resolution {
  intervalMs: number;
  rateIntervalMs: number;
  rangeMs: number;
}

export interface ResolutionInput {
  range: TimeRange;
  maxDataPoints: number;
  /** Panel option "Min interval". */
  panelInterval?: string | null;
  /** Target option "Min step". */
  targetInterval?: string;
  /** The data source's scrape interval. */
  timeInterval?: string;
}

export function resolution(input: ResolutionInput): Resolution {
  const rangeMs = input.range.to.valueOf() - input.range.from.valueOf();
  const asked = parseDuration(input.targetInterval) ?? parseDuration(input.panelInterval) ?? parseDuration(input.timeInterval);
  const lowest = Math.max(asked ?? FINEST_STEP_MS, rangeMs / MOST_POINTS);
  const rounded = rangeUtil.calculateInterval(input.range, Math.max(1, input.maxDataPoints), `${Math.ceil(lowest)}ms`).intervalMs;
  const intervalMs = Math.max(rounded, lowest, 1);
  const scrape = parseDuration(input.targetInterval) ?? parseDuration(input.timeInterval) ?? DEFAULT_SCRAPE_MS;
  return { intervalMs, rateIntervalMs: Math.max(intervalMs + scrape, 4 * scrape), rangeMs };
}

/** "1500" ms as Prometheus spells it: the largest unit that divides it. */
export function durationText(ms: number): string {
  const whole = Math.max(1, Math.round(ms));
  for (const [unit, size] of [['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1000]] as const) {
    if (whole % size === 0) {
      return `${whole / size}${unit}`;
    }
  }
  return `${whole}ms`;
}

export function intervalMacros(r: Resolution): Record<string, string> {
  const rangeSeconds = Math.max(1, Math.round(r.rangeMs / 1000));
  return {
    __interval: durationText(r.intervalMs),
    __interval_ms: String(Math.round(r.intervalMs)),
    __rate_interval: durationText(r.rateIntervalMs),
    __rate_interval_ms: String(Math.round(r.rateIntervalMs)),
    __range: `${rangeSeconds}s`,
    __range_s: String(rangeSeconds),
    __range_ms: String(rangeSeconds * 1000),
  };
}

/** Start and end on multiples of the step, so that a refresh asks for the same instants again and points do not jitter. */
export function alignedWindow(range: TimeRange, stepMs: number): { start: number; end: number; step: number } {
  const align = (ms: number) => (Math.floor(ms / stepMs) * stepMs) / 1000;
  return { start: align(range.from.valueOf()), end: align(range.to.valueOf()), step: stepMs / 1000 };
}
