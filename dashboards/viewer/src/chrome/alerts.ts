// SPDX-License-Identifier: Apache-2.0
// Order and wording of alerts: in goes the server's list, out come what pages show. Pure.
import type { Alert } from '../api/server';

const SEVERITIES = ['critical', 'warning', 'info'];

const rank = (alert: Alert): number => {
  const i = SEVERITIES.indexOf(alert.labels.severity ?? '');
  return i < 0 ? SEVERITIES.length : i;
};

/** Firing before resolved; within those the graver first, then the newer. */
export function orderAlerts(alerts: Alert[]): Alert[] {
  return [...alerts].sort(
    (a, b) =>
      Number(a.status !== 'firing') - Number(b.status !== 'firing') ||
      (a.status === 'firing' ? rank(a) - rank(b) : 0) ||
      Date.parse(b.startsAt) - Date.parse(a.startsAt)
  );
}

/** Alerts that fire for one of these runs, or for no run in particular (the stack itself). */
export function firingFor(alerts: Alert[], runs: string[] | 'all'): Alert[] {
  return orderAlerts(alerts).filter(
    (alert) => alert.status === 'firing' && (runs === 'all' || !alert.labels.run_id || runs.includes(alert.labels.run_id))
  );
}

export function ago(from: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - from) / 1000));
  if (seconds < 60) {
    return `${seconds} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return `${minutes} min ${seconds % 60} s`;
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** The viewer's own page when the link names one of our runbooks, else the link as it is. */
export function runbookHref(alert: Alert): string | undefined {
  const url = alert.annotations.runbook_url;
  const name = alert.labels.alertname;
  if (!url) {
    return name ? `/runbooks/${encodeURIComponent(name)}` : undefined;
  }
  const own = /\/runbooks\/([A-Za-z0-9_-]+)(?:\.md)?$/.exec(url);
  return own ? `/runbooks/${own[1]}` : url;
}
