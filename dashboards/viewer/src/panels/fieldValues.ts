// SPDX-License-Identifier: Apache-2.0
// The reduced values that stat, gauge and bar gauge panels show: in go panel props, out come display values.
import type { FieldDisplay, ReduceDataOptions } from '@grafana/data';
import { getFieldDisplayValues } from '@grafana/data';

import { interpolate } from '../query/interpolate';
import type { PanelProps } from './props';
import { option } from './props';

export function fieldValues({ panel, frames, theme, timeZone, lookup }: PanelProps, sparkline = false): FieldDisplay[] {
  const reduceOptions: ReduceDataOptions = { calcs: ['lastNotNull'], values: false, ...option<Partial<ReduceDataOptions>>(panel, 'reduceOptions', {}) };
  return getFieldDisplayValues({
    fieldConfig: panel.fieldConfig ?? { defaults: {}, overrides: [] },
    reduceOptions,
    replaceVariables: (text) => interpolate(text, lookup, 'text'),
    theme,
    timeZone,
    data: frames,
    sparkline,
  });
}
