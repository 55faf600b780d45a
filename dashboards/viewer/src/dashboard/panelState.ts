// SPDX-License-Identifier: Apache-2.0
// What a panel's data-state says: in go its type and its data, out comes the state that a person and a test both read. Pure.
import type { DataFrame } from '@grafana/data';
import { FieldType } from '@grafana/data';

import type { PanelData } from '../query/usePanelData';
import type { Panel } from './model';

export interface PanelState {
  state: 'loading' | 'ok' | 'nodata' | 'error';
  error?: string;
  /** Nothing was found, and the dashboard says what that means. */
  noValue?: string;
}

/** Panels in which "nothing" is a proper answer ("no bad ranks") when the dashboard gives a text for it. */
const MAY_BE_EMPTY = new Set(['stat', 'gauge', 'bargauge', 'table', 'timeseries', 'state-timeline']);
const CHARTS = new Set(['timeseries', 'trend', 'xychart', 'heatmap', 'stat', 'gauge', 'bargauge']);

export function hasData(panel: Panel, frames: DataFrame[]): boolean {
  const filled = frames.filter((frame) => frame.length > 0);
  if (!CHARTS.has(panel.type)) {
    return filled.length > 0;
  }
  const fields = filled.flatMap((frame) => frame.fields.filter((field) => field.type === FieldType.number));
  if (fields.length === 0) {
    return filled.some((frame) => frame.fields.some((field) => field.type === FieldType.string));
  }
  return fields.some((field) => field.values.some((value: unknown) => value !== null && value !== undefined && !Number.isNaN(value)));
}

export function panelState(panel: Panel, data: PanelData, known: boolean): PanelState {
  if (!known) {
    return { state: 'error', error: `The viewer does not know the panel type "${panel.type}". Grafana may.` };
  }
  if (panel.type === 'text') {
    return { state: 'ok' };
  }
  const errors = [data.error, ...(data.result?.errors ?? [])].filter(Boolean);
  if (errors.length > 0) {
    return { state: 'error', error: errors.join(' · ') };
  }
  if (!data.result) {
    return { state: 'loading' };
  }
  if (hasData(panel, data.result.frames)) {
    return { state: 'ok' };
  }
  const noValue = panel.fieldConfig?.defaults.noValue;
  return noValue && MAY_BE_EMPTY.has(panel.type) ? { state: 'ok', noValue } : { state: 'nodata' };
}
