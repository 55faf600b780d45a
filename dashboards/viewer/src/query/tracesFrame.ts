// SPDX-License-Identifier: Apache-2.0
// A Jaeger search answer -> the table that Grafana's Jaeger data source makes of it, with links to the viewer's trace page.
import type { DataFrame } from '@grafana/data';
import { FieldType } from '@grafana/data';

import type { JaegerTrace } from '../api/jaeger';

export function tracesFrame(refId: string, traces: JaegerTrace[]): DataFrame {
  const rows = traces
    .map((trace) => {
      const root = trace.spans.find((span) => !span.references?.length) ?? trace.spans[0];
      const start = Math.min(...trace.spans.map((span) => span.startTime));
      const end = Math.max(...trace.spans.map((span) => span.startTime + span.duration));
      const service = root ? (trace.processes[root.processID]?.serviceName ?? '') : '';
      return { id: trace.traceID, name: root ? `${service}: ${root.operationName}` : '', start, duration: end - start, spans: trace.spans.length };
    })
    .sort((a, b) => b.start - a.start);
  return {
    refId,
    length: rows.length,
    fields: [
      {
        name: 'Trace ID',
        type: FieldType.string,
        config: { links: [{ title: 'Open trace', url: '/trace/${__value.raw}' }] },
        values: rows.map((row) => row.id),
      },
      { name: 'Trace name', type: FieldType.string, config: {}, values: rows.map((row) => row.name) },
      { name: 'Start time', type: FieldType.time, config: {}, values: rows.map((row) => row.start / 1000) },
      { name: 'Duration', type: FieldType.number, config: { unit: 'µs' }, values: rows.map((row) => row.duration) },
      { name: 'Spans', type: FieldType.number, config: {}, values: rows.map((row) => row.spans) },
    ],
  };
}
