// SPDX-License-Identifier: Apache-2.0
// Lines, points and bars over time.
import type { DataFrame } from '@grafana/data';
import { FieldType } from '@grafana/data';
import type { SortOrder } from '@grafana/schema';
import { TooltipDisplayMode } from '@grafana/schema';
import { PanelContextRoot, TimeSeries, TooltipPlugin2 } from '@grafana/ui';
import { useContext, useEffect, useMemo } from 'react';

import { AnnotationsPlugin } from '../plot/AnnotationsPlugin';
import { useStructureRev } from '../plot/structure';
import { TimeTooltip } from '../plot/TimeTooltip';
import { MOST_SERIES } from '../query/run';
import { legendOf } from './legend';
import type { PanelProps } from './props';
import { option } from './props';

/** TooltipHoverMode of @grafana/ui, a const enum that the package does not export. */
const HOVER_ONE = 0;
const HOVER_ALL = 1;

export function capSeries(frames: DataFrame[], most: number): { frames: DataFrame[]; total: number } {
  let total = 0;
  const kept: DataFrame[] = [];
  for (const frame of frames) {
    const fields = frame.fields.filter((field) => field.type !== FieldType.number || ++total <= most);
    if (fields.some((field) => field.type === FieldType.number)) {
      kept.push({ ...frame, fields });
    }
  }
  return { frames: kept, total };
}

export function TimeSeriesPanel({ panel, frames, range, timeZone, width, height, annotations, onZoom, onCapped }: PanelProps) {
  const drawn = useMemo(() => capSeries(frames, MOST_SERIES), [frames]);
  const legend = useMemo(() => legendOf(panel), [panel]);
  const rev = useStructureRev(drawn.frames);
  const { sync, eventsScope } = useContext(PanelContextRoot);
  const tooltip = option<{ mode?: TooltipDisplayMode; sort?: SortOrder }>(panel, 'tooltip', {});
  const mode = tooltip.mode ?? TooltipDisplayMode.Single;

  useEffect(() => {
    if (drawn.total > MOST_SERIES) {
      onCapped(MOST_SERIES, drawn.total);
    }
  }, [drawn.total, onCapped]);

  if (!drawn.frames.some((frame) => frame.fields.some((field) => field.type === FieldType.time))) {
    throw new Error('A time series panel needs a time field. Use the format "time_series" or a transformation.');
  }
  return (
    <TimeSeries frames={drawn.frames} structureRev={rev} timeRange={range} timeZone={timeZone} width={width} height={height} legend={legend}>
      {(config, aligned) => (
        <>
          {mode !== TooltipDisplayMode.None && (
            <TooltipPlugin2
              config={config}
              hoverMode={mode === TooltipDisplayMode.Single ? HOVER_ONE : HOVER_ALL}
              queryZoom={({ from, to }) => onZoom(from, to)}
              clientZoom
              syncMode={sync?.()}
              syncScope={eventsScope}
              getDataLinks={(seriesIdx, dataIdx) => aligned.fields[seriesIdx]?.getLinks?.({ valueRowIndex: dataIdx }) ?? []}
              render={(_u, dataIdxs, seriesIdx, isPinned, _dismiss, _range, viaSync, dataLinks) => (
                <TimeTooltip
                  frame={aligned}
                  dataIdxs={dataIdxs}
                  seriesIdx={seriesIdx}
                  mode={viaSync ? TooltipDisplayMode.Multi : mode}
                  sort={tooltip.sort ?? ('none' as SortOrder)}
                  isPinned={isPinned}
                  dataLinks={dataLinks}
                />
              )}
            />
          )}
          <AnnotationsPlugin config={config} events={annotations} timeZone={timeZone} />
        </>
      )}
    </TimeSeries>
  );
}
