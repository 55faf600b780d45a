// SPDX-License-Identifier: Apache-2.0
// Big numbers with an optional line behind them.
import type { FieldDisplay } from '@grafana/data';
import { VizOrientation } from '@grafana/data';
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, VizRepeater } from '@grafana/ui';
import { getDisplayValueAlignmentFactors } from '@grafana/data';

import { fieldValues } from './fieldValues';
import type { PanelProps } from './props';
import { option } from './props';
import { ValueLink } from './ValueLink';

export function StatPanel(props: PanelProps) {
  const { panel, frames, theme, width, height, range } = props;
  const graphMode = option<BigValueGraphMode>(panel, 'graphMode', BigValueGraphMode.Area);
  const getValues = () => fieldValues(props, graphMode !== BigValueGraphMode.None);
  return (
    <VizRepeater<FieldDisplay, ReturnType<typeof getDisplayValueAlignmentFactors>>
      getValues={getValues}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      source={frames}
      renderCounter={0}
      width={width}
      height={height}
      itemSpacing={4}
      orientation={option(panel, 'orientation', VizOrientation.Auto)}
      autoGrid
      renderValue={({ value, width: w, height: h, count, alignmentFactors }) => (
        <ValueLink value={value}>
          {(onClick, className) => (
            <BigValue
              value={value.display}
              count={count}
              sparkline={value.sparkline && { ...value.sparkline, timeRange: range }}
              colorMode={option(panel, 'colorMode', BigValueColorMode.Value)}
              graphMode={graphMode}
              justifyMode={option(panel, 'justifyMode', BigValueJustifyMode.Auto)}
              textMode={option(panel, 'textMode', BigValueTextMode.Auto)}
              alignmentFactors={alignmentFactors}
              text={option(panel, 'text', undefined)}
              disableWideLayout={!option(panel, 'wideLayout', true)}
              width={w}
              height={h}
              theme={theme}
              onClick={onClick}
              className={className}
              hasLinks={value.hasLinks}
            />
          )}
        </ValueLink>
      )}
    />
  );
}
