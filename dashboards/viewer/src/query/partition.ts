// SPDX-License-Identifier: Apache-2.0
// The transformation partitionByValues, which Grafana keeps outside its Apache-licensed packages: one table in, one frame per
// distinct combination of the named columns out.
import type { DataFrame, DataTransformerInfo, Field } from '@grafana/data';
import { map } from 'rxjs';

export interface PartitionOptions {
  fields: string[];
  keepFields?: boolean;
  naming?: { asLabels?: boolean; append?: boolean; withNames?: boolean; separator1?: string; separator2?: string };
}

export function partitionFrame(frame: DataFrame, options: PartitionOptions): DataFrame[] {
  const keys = frame.fields.filter((field) => options.fields.includes(field.name));
  if (keys.length === 0) {
    return [frame];
  }
  const groups = new Map<string, number[]>();
  for (let row = 0; row < frame.length; row++) {
    const id = JSON.stringify(keys.map((field) => field.values[row]));
    const rows = groups.get(id);
    if (rows) {
      rows.push(row);
    } else {
      groups.set(id, [row]);
    }
  }
  const kept = frame.fields.filter((field) => options.keepFields || !keys.includes(field));
  return [...groups.values()].map((rows) => part(frame, keys, kept, rows, options));
}

function part(frame: DataFrame, keys: Field[], kept: Field[], rows: number[], options: PartitionOptions): DataFrame {
  const naming = options.naming ?? {};
  const first = rows[0];
  const labels = Object.fromEntries(keys.map((field) => [field.name, String(field.values[first])]));
  const words = keys.map((field) => {
    const value = String(field.values[first]);
    return naming.withNames ? `${field.name}${naming.separator1 ?? '='}${value}` : value;
  });
  const name = words.join(naming.separator2 ?? ' ');
  return {
    refId: frame.refId,
    meta: frame.meta,
    name: naming.append && frame.name ? `${frame.name} ${name}` : name,
    length: rows.length,
    fields: kept.map((field) => ({
      name: field.name,
      type: field.type,
      config: { ...field.config },
      labels: naming.asLabels && field.type === 'number' ? { ...field.labels, ...labels } : field.labels,
      values: rows.map((row) => field.values[row]),
    })),
  };
}

export const partitionByValues: DataTransformerInfo<PartitionOptions> = {
  id: 'partitionByValues',
  name: 'Partition by values',
  description: 'Splits one table into a frame per value',
  defaultOptions: { fields: [], keepFields: false },
  operator: (options) => (source) =>
    source.pipe(map((frames) => frames.flatMap((frame) => partitionFrame(frame, options)))),
};
