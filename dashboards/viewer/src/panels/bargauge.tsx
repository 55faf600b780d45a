// SPDX-License-Identifier: Apache-2.0
// One bar per value.
import type { FieldDisplay } from '@grafana/data';
import { getDisplayValueAlignmentFactors, VizOrientation } from '@grafana/data';
import { BarGaugeDisplayMode } from '@grafana/schema';
import { BarGauge, VizRepeater } from '@grafana/ui';

import { fieldValues } from './fieldValues';
import type { PanelProps } from './props';
import { option } from './props';
import { ValueLink } from './ValueLink';

/** Rows lower than this are unreadable: the panel scrolls instead. */
const LOWEST_ROW = 22;

export function BarGaugePanel(props: PanelProps) {
  const { panel, frames, theme, width, height } = props;
  const orientation = option<VizOrientation>(panel, 'orientation', VizOrientation.Horizontal);
  const resolved = orientation === VizOrientation.Auto ? (width > height ? VizOrientation.Vertical : VizOrientation.Horizontal) : orientation;
  return (
    <div style={{ width, height, overflow: 'auto' }}>
      <VizRepeater<FieldDisplay, ReturnType<typeof getDisplayValueAlignmentFactors>>
        getValues={() => fieldValues(props)}
        getAlignmentFactors={getDisplayValueAlignmentFactors}
        source={frames}
        renderCounter={0}
        width={width}
        height={height}
        minVizHeight={LOWEST_ROW}
        itemSpacing={6}
        orientation={resolved}
        renderValue={({ value, width: w, height: h, alignmentFactors }) => (
          <ValueLink value={value}>
            {(onClick, className) => (
              <BarGauge
                value={value.display}
                field={value.field}
                display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
                orientation={resolved}
                displayMode={option(panel, 'displayMode', BarGaugeDisplayMode.Gradient)}
                showUnfilled={option(panel, 'showUnfilled', true)}
                valueDisplayMode={option(panel, 'valueMode', undefined)}
                namePlacement={option(panel, 'namePlacement', undefined)}
                text={option(panel, 'text', undefined)}
                alignmentFactors={alignmentFactors}
                itemSpacing={6}
                lcdCellWidth={8}
                width={w}
                height={h}
                theme={theme}
                onClick={onClick}
                className={className}
              />
            )}
          </ValueLink>
        )}
      />
    </div>
  );
}
