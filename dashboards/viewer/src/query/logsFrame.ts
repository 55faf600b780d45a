// SPDX-License-Identifier: Apache-2.0
// Log lines -> the frame that logs and table panels read: Time, Line, labels.
import type { DataFrame } from '@grafana/data';
import { FieldType } from '@grafana/data';

import type { LogLine } from '../api/logs';

export function logsFrame(refId: string, lines: LogLine[]): DataFrame {
  const newest = [...lines].sort((a, b) => b.time - a.time);
  return {
    refId,
    length: newest.length,
    meta: { preferredVisualisationType: 'logs' },
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: newest.map((line) => line.time) },
      { name: 'Line', type: FieldType.string, config: {}, values: newest.map((line) => line.message) },
      { name: 'labels', type: FieldType.other, config: {}, values: newest.map((line) => line.fields) },
    ],
  };
}
