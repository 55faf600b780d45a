// SPDX-License-Identifier: Apache-2.0
// One way to talk to the server: in goes a path, out comes parsed JSON or text; failures become RequestError with a text
// that a person can act on. Knows nothing of dashboards.

/** Longest time that any request may take; a store that needs longer is told to give up by the closed connection. */
export const REQUEST_TIMEOUT_MS = 30_000;
const LONGEST_ERROR = 400;

export class RequestError extends Error {
  constructor(
    message: string,
    readonly status: number
  ) {
    super(message);
    this.name = 'RequestError';
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** The text in an error answer: Prometheus says {"error"}, FastAPI {"detail"}, others {"message"} or plain text. */
export function errorText(body: string, status: number): string {
  try {
    const parsed: unknown = JSON.parse(body);
    if (parsed && typeof parsed === 'object') {
      const fields = parsed as Record<string, unknown>;
      const text = fields.error ?? fields.detail ?? fields.message;
      if (text) {
        return shorten(typeof text === 'string' ? text : JSON.stringify(text));
      }
    }
  } catch {
    // Not JSON: fall through to the text itself.
  }
  const text = body.trim();
  return text && !text.startsWith('<') ? shorten(text) : `The server answered ${status}.`;
}

function shorten(text: string): string {
  return text.length > LONGEST_ERROR ? `${text.slice(0, LONGEST_ERROR)}…` : text;
}

export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  const signal = init.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
  let response: Response;
  try {
    response = await fetch(url, { ...init, signal });
  } catch (error) {
    if (init.signal?.aborted) {
      throw error;
    }
    if (timeout.aborted) {
      throw new RequestError(`No answer within ${REQUEST_TIMEOUT_MS / 1000} s. Narrow the time range or the query.`, 0);
    }
    throw new RequestError('The glideslope server does not answer. Is it running? Check with: glideslope status', 0);
  }
  if (!response.ok) {
    throw new RequestError(errorText(await response.text(), response.status), response.status);
  }
  return response;
}

export async function fetchJson<T>(url: string, init?: RequestInit): Promise<T> {
  const response = await request(url, init);
  const body = await response.text();
  try {
    return JSON.parse(body) as T;
  } catch {
    throw new RequestError(`Expected JSON from ${url.split('?')[0]}, got something else.`, response.status);
  }
}

export async function fetchText(url: string, init?: RequestInit): Promise<string> {
  return (await request(url, init)).text();
}

const LONGEST_GET = 1800;

/** GET while the address stays short (easy to read in a log), a form POST beyond that (long expressions). */
export function formRequest(path: string, params: URLSearchParams, signal?: AbortSignal): [string, RequestInit] {
  const query = params.toString();
  if (path.length + query.length < LONGEST_GET) {
    return [`${path}?${query}`, { signal }];
  }
  return [path, { signal, method: 'POST', body: query, headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }];
}
