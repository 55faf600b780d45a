// SPDX-License-Identifier: Apache-2.0
// The calls of the glideslope server itself: dashboards, datasources, alerts, runbooks. In go ids, out come typed answers.
import type { Dashboard } from '../dashboard/model';
import { fetchJson, fetchText } from './http';

export interface DashboardSummary {
  uid: string;
  title: string;
  tags?: string[];
  description?: string;
}

export interface DataSource {
  uid: string;
  type: string;
  name: string;
  isDefault?: boolean;
  jsonData?: { timeInterval?: string };
}

export interface Alert {
  fingerprint: string;
  status: 'firing' | 'resolved';
  labels: Record<string, string>;
  annotations: Record<string, string>;
  startsAt: string;
  endsAt?: string | null;
  receivedAt?: string;
}

export interface AlertList {
  alerts: Alert[];
  watchdog: { lastSeen: string | null; healthy: boolean };
}

export const listDashboards = (signal?: AbortSignal) => fetchJson<DashboardSummary[]>('/api/dashboards', { signal });

export const getDashboard = (uid: string, signal?: AbortSignal) =>
  fetchJson<Dashboard>(`/api/dashboards/${encodeURIComponent(uid)}`, { signal });

export const listDataSources = (signal?: AbortSignal) => fetchJson<DataSource[]>('/api/datasources', { signal });

export const listAlerts = (signal?: AbortSignal) => fetchJson<AlertList>('/api/alerts', { signal });

export const getRunbook = (name: string, signal?: AbortSignal) =>
  fetchText(`/api/runbooks/${encodeURIComponent(name)}`, { signal });

export const proxyPath = (uid: string, path: string) => `/api/datasources/proxy/${encodeURIComponent(uid)}/${path}`;
