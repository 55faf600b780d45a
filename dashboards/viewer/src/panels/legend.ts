// SPDX-License-Identifier: Apache-2.0
// A panel's legend options with Grafana's defaults.
import type { VizLegendOptions } from '@grafana/schema';
import { LegendDisplayMode } from '@grafana/schema';

import type { Panel } from '../dashboard/model';
import { option } from './props';

export function legendOf(panel: Panel): VizLegendOptions {
  return {
    displayMode: LegendDisplayMode.List,
    placement: 'bottom',
    showLegend: true,
    calcs: [],
    ...option<Partial<VizLegendOptions>>(panel, 'legend', {}),
  };
}
