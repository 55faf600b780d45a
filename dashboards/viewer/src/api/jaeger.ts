// SPDX-License-Identifier: Apache-2.0
// Jaeger's query API through the server's proxy: in goes a trace id or a search, out come raw traces as Jaeger spells them.
import { fetchJson, formRequest, RequestError } from './http';
import { proxyPath } from './server';

export interface JaegerTag {
  key: string;
  type?: string;
  value: unknown;
}

export interface JaegerSpan {
  traceID: string;
  spanID: string;
  operationName: string;
  references?: Array<{ refType: string; traceID: string; spanID: string }>;
  /** Microseconds since the epoch. */
  startTime: number;
  /** Microseconds. */
  duration: number;
  tags?: JaegerTag[];
  logs?: Array<{ timestamp: number; fields: JaegerTag[] }>;
  processID: string;
  process?: JaegerProcess;
  warnings?: string[] | null;
}

export interface JaegerProcess {
  serviceName: string;
  tags?: JaegerTag[];
}

export interface JaegerTrace {
  traceID: string;
  spans: JaegerSpan[];
  processes: Record<string, JaegerProcess>;
}

interface JaegerAnswer {
  data: JaegerTrace[] | null;
  errors?: Array<{ code: number; msg: string }> | null;
}

function unwrap(answer: JaegerAnswer): JaegerTrace[] {
  const error = answer.errors?.[0];
  if (error) {
    throw new RequestError(error.msg, error.code);
  }
  return answer.data ?? [];
}

export async function getTrace(uid: string, traceId: string, signal?: AbortSignal): Promise<JaegerTrace> {
  const path = proxyPath(uid, `api/traces/${encodeURIComponent(traceId)}`);
  const traces = unwrap(await fetchJson<JaegerAnswer>(path, { signal }));
  if (traces.length === 0) {
    throw new RequestError(`No trace ${traceId} in the store.`, 404);
  }
  return traces[0];
}

export interface TraceSearch {
  service: string;
  operation?: string;
  /** JSON object of tags, as Jaeger's API wants it. */
  tags?: string;
  minDuration?: string;
  maxDuration?: string;
  limit: number;
  /** Microseconds since the epoch. */
  start: number;
  end: number;
}

export async function searchTraces(uid: string, search: TraceSearch, signal?: AbortSignal): Promise<JaegerTrace[]> {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== '') {
      params.set(name, String(value));
    }
  }
  return unwrap(await fetchJson<JaegerAnswer>(...formRequest(proxyPath(uid, 'api/traces'), params, signal)));
}
