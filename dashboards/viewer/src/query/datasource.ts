// SPDX-License-Identifier: Apache-2.0
// Which data source a target means: in goes its reference (may name a variable), out comes one of the server's sources.
import type { DataSource } from '../api/server';
import type { DataSourceRef } from '../dashboard/model';
import type { Lookup } from './interpolate';
import { interpolate } from './interpolate';

export type Kind = 'prometheus' | 'logs' | 'traces';

export function kindOf(type: string): Kind | undefined {
  if (type === 'prometheus' || type === 'victoriametrics-metrics-datasource') {
    return 'prometheus';
  }
  if (type === 'victoriametrics-logs-datasource') {
    return 'logs';
  }
  return type === 'jaeger' || type === 'tempo' ? 'traces' : undefined;
}

export class DataSourceError extends Error {}

export function findDataSource(
  ref: DataSourceRef | string | null | undefined,
  fallback: DataSourceRef | string | null | undefined,
  sources: DataSource[],
  lookup: Lookup
): DataSource {
  const asked = mixed(ref) ? fallback : ref;
  const name = typeof asked === 'string' ? asked : asked?.uid;
  const uid = name ? interpolate(name, lookup, 'text') : '';
  const wantedType = typeof asked === 'object' ? asked?.type : undefined;
  const found = uid
    ? sources.find((s) => s.uid === uid || s.name === uid)
    : (sources.find((s) => s.isDefault && (!wantedType || s.type === wantedType)) ??
      sources.find((s) => s.type === wantedType));
  if (!found) {
    throw new DataSourceError(`No data source "${uid || wantedType || 'default'}". Known: ${sources.map((s) => s.uid).join(', ') || 'none'}.`);
  }
  return found;
}

const mixed = (ref: DataSourceRef | string | null | undefined) =>
  !ref || (typeof ref === 'object' ? !ref.uid || ref.uid === '-- Mixed --' : ref === '-- Mixed --');
