// SPDX-License-Identifier: Apache-2.0
// The part of Grafana's classic dashboard JSON that the viewer reads. Types only.
import type { DataTransformerConfig, FieldConfigSource, ScopedVars } from '@grafana/data';

export interface DataSourceRef {
  type?: string;
  uid?: string;
}

export interface Target {
  refId: string;
  datasource?: DataSourceRef | string | null;
  expr?: string;
  format?: 'time_series' | 'table' | 'heatmap';
  legendFormat?: string;
  instant?: boolean;
  range?: boolean;
  interval?: string;
  hide?: boolean;
  /** VictoriaLogs: instant | stats | statsRange. Jaeger: search | (by id). */
  queryType?: string;
  maxLines?: number;
  /** Jaeger. */
  query?: string;
  service?: string;
  operation?: string;
  tags?: string;
  minDuration?: string;
  maxDuration?: string;
  limit?: number;
}

export interface GridPos {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Link {
  title?: string;
  url?: string;
  type?: 'link' | 'dashboards';
  tags?: string[];
  tooltip?: string;
  targetBlank?: boolean;
  includeVars?: boolean;
  keepTime?: boolean;
}

export interface Panel {
  id: number;
  type: string;
  title?: string;
  description?: string;
  gridPos: GridPos;
  datasource?: DataSourceRef | string | null;
  targets?: Target[];
  options?: Record<string, unknown>;
  fieldConfig?: FieldConfigSource;
  transformations?: DataTransformerConfig[];
  interval?: string | null;
  maxDataPoints?: number | null;
  timeFrom?: string | null;
  timeShift?: string | null;
  repeat?: string | null;
  repeatDirection?: 'h' | 'v';
  maxPerRow?: number;
  links?: Link[];
  transparent?: boolean;
  /** Rows only. */
  collapsed?: boolean;
  panels?: Panel[];
  /** Set by the repeat expansion: the variables that this copy fixes. */
  scopedVars?: ScopedVars;
  /** Set by the repeat expansion: identity of the copy. */
  key?: string;
}

export interface VariableModel {
  name: string;
  type: string;
  label?: string | null;
  hide?: number;
  query?: string | { query?: string; qryType?: number };
  definition?: string;
  datasource?: DataSourceRef | string | null;
  regex?: string;
  sort?: number;
  refresh?: number;
  multi?: boolean;
  includeAll?: boolean;
  allValue?: string | null;
  current?: { value?: string | string[]; text?: string | string[] };
  options?: Array<{ value: string; text: string; selected?: boolean }>;
  auto?: boolean;
  auto_count?: number;
  auto_min?: string;
}

export interface AnnotationQuery {
  name: string;
  enable?: boolean;
  hide?: boolean;
  builtIn?: number;
  iconColor?: string;
  datasource?: DataSourceRef | string | null;
  expr?: string;
  step?: string;
  titleFormat?: string;
  textFormat?: string;
  tagKeys?: string;
  useValueForTime?: boolean | string;
  target?: { expr?: string; interval?: string };
}

export interface Dashboard {
  uid: string;
  title: string;
  description?: string;
  tags?: string[];
  time?: { from: string; to: string };
  timezone?: string;
  refresh?: string | boolean;
  graphTooltip?: number;
  panels: Panel[];
  templating?: { list: VariableModel[] };
  annotations?: { list: AnnotationQuery[] };
  links?: Link[];
}
