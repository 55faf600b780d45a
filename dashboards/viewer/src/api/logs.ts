// SPDX-License-Identifier: Apache-2.0
// VictoriaLogs through the server's proxy: in goes a LogsQL text with a range, out come log lines.
import { fetchText, formRequest } from './http';
import type { Window } from './prometheus';
import { proxyPath } from './server';

export interface LogLine {
  /** Milliseconds since the epoch. */
  time: number;
  message: string;
  fields: Record<string, string>;
}

/** JSON lines as VictoriaLogs streams them; a line that is cut off (a closed connection) is left out. */
export function parseLogLines(body: string): LogLine[] {
  const lines: LogLine[] = [];
  for (const text of body.split('\n')) {
    if (!text.trim()) {
      continue;
    }
    let record: Record<string, unknown>;
    try {
      record = JSON.parse(text) as Record<string, unknown>;
    } catch {
      continue;
    }
    const { _time, _msg, ...rest } = record;
    const fields: Record<string, string> = {};
    for (const [name, value] of Object.entries(rest)) {
      fields[name] = typeof value === 'string' ? value : JSON.stringify(value);
    }
    lines.push({ time: Date.parse(String(_time)), message: String(_msg ?? ''), fields });
  }
  return lines;
}

export async function queryLogs(uid: string, query: string, window: Window, limit: number, signal?: AbortSignal): Promise<LogLine[]> {
  const params = new URLSearchParams({
    query,
    start: window.start.toFixed(3),
    end: window.end.toFixed(3),
    limit: String(limit),
  });
  return parseLogLines(await fetchText(...formRequest(proxyPath(uid, 'select/logsql/query'), params, signal)));
}
