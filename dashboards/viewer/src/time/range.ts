// SPDX-License-Identifier: Apache-2.0
// Time ranges: in goes what stands in the address or the dashboard ("now-15m", epoch milliseconds, ISO), out comes a TimeRange.
import type { RawTimeRange, TimeRange, TimeZone } from '@grafana/data';
import { dateMath, dateTime, dateTimeParse } from '@grafana/data';

export const DEFAULT_RANGE: RawTimeRange = { from: 'now-15m', to: 'now' };

/** Grafana writes absolute times as epoch milliseconds; people also type ISO dates. */
export function parseRaw(text: string, timeZone: TimeZone = 'browser'): string | ReturnType<typeof dateTime> | undefined {
  const trimmed = text.trim();
  if (trimmed.startsWith('now')) {
    return dateMath.isValid(trimmed) ? trimmed : undefined;
  }
  const parsed = /^-?\d+$/.test(trimmed) && trimmed.length !== 8 ? dateTime(Number(trimmed)) : dateTimeParse(trimmed, { timeZone });
  return parsed.isValid() ? parsed : undefined;
}

/** Resolves a raw range at this instant; a range that makes no sense falls back to the default one. */
export function resolveRange(rawFrom: string, rawTo: string, timeZone: TimeZone = 'browser'): TimeRange {
  const from = parseRaw(rawFrom, timeZone) ?? DEFAULT_RANGE.from;
  const to = parseRaw(rawTo, timeZone) ?? DEFAULT_RANGE.to;
  const range = {
    from: toDateTime(from, false),
    to: toDateTime(to, true),
    raw: { from, to },
  };
  return range.from.isBefore(range.to) ? range : resolveRange(String(DEFAULT_RANGE.from), String(DEFAULT_RANGE.to), timeZone);
}

function toDateTime(value: RawTimeRange['from'], roundUp: boolean) {
  return typeof value === 'string' ? dateTime(dateMath.parse(value, roundUp)) : value;
}

/** How the address spells one end of a range. */
export function rawToText(value: RawTimeRange['from']): string {
  return typeof value === 'string' ? value : String(value.valueOf());
}

const DURATION = /^(\d+(?:\.\d+)?)(ms|[smhdwMy])$/;
const SECONDS: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400, w: 604_800, M: 2_592_000, y: 31_536_000 };

/** "1m30s" is not a Grafana interval; "10s", "500ms", ">5s" are. Unreadable text gives undefined. Result: milliseconds. */
export function parseDuration(text: string | null | undefined): number | undefined {
  const match = DURATION.exec((text ?? '').trim().replace(/^>/, ''));
  return match ? Number(match[1]) * SECONDS[match[2]] * 1000 : undefined;
}

/** The panel's own window ("timeFrom": last 1h; "timeShift": one day earlier) applied to the dashboard's. */
export function panelRange(range: TimeRange, timeFrom?: string | null, timeShift?: string | null): TimeRange {
  let result = range;
  if (timeFrom && parseDuration(timeFrom) !== undefined && typeof range.raw.to === 'string') {
    result = resolveRange(`now-${timeFrom}`, 'now');
  }
  const shift = parseDuration(timeShift);
  if (shift) {
    const from = dateTime(result.from.valueOf() - shift);
    const to = dateTime(result.to.valueOf() - shift);
    result = { from, to, raw: { from, to } };
  }
  return result;
}
