// SPDX-License-Identifier: Apache-2.0
// What all panels of an open dashboard share.
import type { EventBus, TimeZone } from '@grafana/data';
import { createContext, useContext } from 'react';

import type { AnnotationEvent } from '../annotations/fold';
import type { DataSource } from '../api/server';
import type { DashboardScope } from '../query/scope';

export interface DashboardShared {
  scope: DashboardScope;
  /** Identity of the window and the variables, for cancelling what no longer matters. */
  scopeKey: string;
  sources: DataSource[];
  tick: number;
  timeZone: TimeZone;
  annotations: AnnotationEvent[];
  eventBus: EventBus;
  /** 0 off, 1 crosshair, 2 tooltip on all panels. */
  graphTooltip: number;
  onZoom: (from: number, to: number) => void;
  onView: (panel: number | null) => void;
  viewed?: number;
}

export const DashboardContext = createContext<DashboardShared | null>(null);

export function useDashboard(): DashboardShared {
  const shared = useContext(DashboardContext);
  if (!shared) {
    throw new Error('Panels live inside a dashboard page.');
  }
  return shared;
}
