// SPDX-License-Identifier: Apache-2.0
// Which component draws which panel type.
import type { ComponentType } from 'react';

import { BarGaugePanel } from './bargauge';
import { GaugePanel } from './gauge';
import { HeatmapPanel } from './heatmap';
import { LogsPanel } from './logs';
import type { PanelProps } from './props';
import { StatPanel } from './stat';
import { StateTimelinePanel } from './state-timeline';
import { TablePanel } from './table';
import { TextPanel } from './text';
import { TimeSeriesPanel } from './timeseries';
import { TracesPanel } from './traces';
import { TrendPanel } from './trend';
import { XYChartPanel } from './xychart';

export const PANELS: Record<string, ComponentType<PanelProps> | undefined> = {
  bargauge: BarGaugePanel,
  gauge: GaugePanel,
  heatmap: HeatmapPanel,
  logs: LogsPanel,
  stat: StatPanel,
  'state-timeline': StateTimelinePanel,
  table: TablePanel,
  text: TextPanel,
  timeseries: TimeSeriesPanel,
  traces: TracesPanel,
  trend: TrendPanel,
  xychart: XYChartPanel,
};
