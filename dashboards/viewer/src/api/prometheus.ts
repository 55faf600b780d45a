// SPDX-License-Identifier: Apache-2.0
// Prometheus HTTP API through the server's proxy: in goes a PromQL text with a range, out come series. No frames, no display.
import { fetchJson, formRequest, RequestError } from './http';
import { proxyPath } from './server';

export interface PromSeries {
  metric: Record<string, string>;
  values: Array<[number, string]>;
}

interface PromAnswer<T> {
  status: 'success' | 'error';
  error?: string;
  data: T;
}

type PromResult =
  | { resultType: 'matrix'; result: PromSeries[] }
  | { resultType: 'vector'; result: Array<{ metric: Record<string, string>; value: [number, string] }> }
  | { resultType: 'scalar' | 'string'; result: [number, string] };

async function call<T>(uid: string, path: string, params: URLSearchParams, signal?: AbortSignal): Promise<T> {
  const answer = await fetchJson<PromAnswer<T>>(...formRequest(proxyPath(uid, path), params, signal));
  if (answer.status !== 'success') {
    throw new RequestError(answer.error ?? 'The metrics store reported an error without a text.', 200);
  }
  return answer.data;
}

export function toSeries(data: PromResult): PromSeries[] {
  switch (data.resultType) {
    case 'matrix':
      return data.result;
    case 'vector':
      return data.result.map((entry) => ({ metric: entry.metric, values: [entry.value] }));
    default:
      return [{ metric: {}, values: [data.result] }];
  }
}

export interface Window {
  /** Seconds since the epoch. */
  start: number;
  end: number;
}

export async function queryRange(uid: string, expr: string, window: Window & { step: number }, signal?: AbortSignal, path = 'api/v1/query_range') {
  const params = new URLSearchParams({
    query: expr,
    start: String(window.start),
    end: String(window.end),
    step: String(window.step),
  });
  return toSeries(await call<PromResult>(uid, path, params, signal));
}

export async function queryInstant(uid: string, expr: string, time: number, signal?: AbortSignal, path = 'api/v1/query') {
  return toSeries(await call<PromResult>(uid, path, new URLSearchParams({ query: expr, time: String(time) }), signal));
}

function windowParams(window: Window, match?: string): URLSearchParams {
  const params = new URLSearchParams({ start: String(Math.floor(window.start)), end: String(Math.ceil(window.end)) });
  if (match) {
    params.set('match[]', match);
  }
  return params;
}

export const labelValues = (uid: string, label: string, match: string | undefined, window: Window, signal?: AbortSignal) =>
  call<string[]>(uid, `api/v1/label/${encodeURIComponent(label)}/values`, windowParams(window, match), signal);

export const labelNames = (uid: string, window: Window, signal?: AbortSignal) =>
  call<string[]>(uid, 'api/v1/labels', windowParams(window), signal);

/** Prometheus spells infinities "+Inf" and "-Inf", which Number() does not know. */
export function parseSample(text: string): number {
  if (text === '+Inf' || text === 'Inf') {
    return Infinity;
  }
  return text === '-Inf' ? -Infinity : Number(text);
}
