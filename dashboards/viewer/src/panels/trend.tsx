// SPDX-License-Identifier: Apache-2.0
// Lines over any ascending number (a step, tokens), named by the option xField.
import type { DataFrame, Field } from '@grafana/data';
import { FieldMatcherID, fieldMatchers, FieldType } from '@grafana/data';
import type { SortOrder } from '@grafana/schema';
import { TooltipDisplayMode } from '@grafana/schema';
import { TimeSeries, TooltipPlugin2 } from '@grafana/ui';
import { useMemo } from 'react';

import { useStructureRev } from '../plot/structure';
import { TimeTooltip } from '../plot/TimeTooltip';
import { legendOf } from './legend';
import type { PanelProps } from './props';
import { option } from './props';

/** Colours go by a field's place among the drawn ones, so that a run has the same colour here as in a time series panel. */
function withoutX(frames: DataFrame[], isX: (field: Field, frame: DataFrame) => boolean): DataFrame[] {
  let index = 0;
  return frames.map((frame) => ({
    ...frame,
    fields: frame.fields.map((field) =>
      field.type === FieldType.number && !isX(field, frame) ? { ...field, state: { ...field.state, seriesIndex: index++ } } : field
    ),
  }));
}

export function TrendPanel({ panel, frames, range, timeZone, width, height }: PanelProps) {
  const xName = option<string>(panel, 'xField', '');
  const fields = useMemo(() => {
    const named = fieldMatchers.get(FieldMatcherID.byName).get(xName);
    const numeric = fieldMatchers.get(FieldMatcherID.numeric).get({});
    const first = (field: Field, frame: DataFrame) => field === frame.fields.find((f) => f.type === FieldType.number);
    const isX = (field: Field, frame: DataFrame) => (xName ? named(field, frame, frames) : first(field, frame));
    return { x: isX, y: (field: Field, frame: DataFrame) => numeric(field, frame, frames) && !isX(field, frame) };
  }, [xName, frames]);
  const drawn = useMemo(() => withoutX(frames, fields.x), [frames, fields]);
  const legend = useMemo(() => legendOf(panel), [panel]);
  const rev = useStructureRev(drawn);

  const x = drawn.flatMap((frame) => frame.fields.filter((field) => fields.x(field, frame)))[0];
  if (!x) {
    throw new Error(`A trend panel needs its x field; "${xName}" is not among: ${drawn.flatMap((f) => f.fields.map((g) => g.name)).join(', ')}.`);
  }
  if (x.values.some((value, i) => i > 0 && !(value > x.values[i - 1]))) {
    throw new Error(`The values of "${x.name}" must ascend. Sort them, and keep one value per step (groupingToMatrix).`);
  }
  return (
    <TimeSeries frames={drawn} fields={fields} structureRev={rev} timeRange={range} timeZone={timeZone} width={width} height={height} legend={legend}>
      {(config, aligned) => (
        <TooltipPlugin2
          config={config}
          hoverMode={1}
          clientZoom
          render={(_u, dataIdxs, seriesIdx, isPinned) => (
            <TimeTooltip
              frame={aligned}
              dataIdxs={dataIdxs}
              seriesIdx={seriesIdx}
              mode={TooltipDisplayMode.Multi}
              sort={'none' as SortOrder}
              isPinned={isPinned}
              dataLinks={[]}
            />
          )}
        />
      )}
    </TimeSeries>
  );
}
