// SPDX-License-Identifier: Apache-2.0
// Tables with data links, sorting and paging.
import { getFrameDisplayName } from '@grafana/data';
import type { TableCellHeight } from '@grafana/schema';
import { Combobox } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { useState } from 'react';

import { useStructureRev } from '../plot/structure';
import type { PanelProps } from './props';
import { option } from './props';

const CHOOSER_HEIGHT = 40;

export function TablePanel({ panel, frames, range, width, height }: PanelProps) {
  const [picked, setPicked] = useState(option(panel, 'frameIndex', 0));
  const index = Math.min(picked, frames.length - 1);
  const frame = frames[index];
  const rev = useStructureRev([frame]);
  const chooser = frames.length > 1;
  return (
    <div style={{ width, height, display: 'flex', flexDirection: 'column', gap: 8 }}>
      <TableNG
        data={frame}
        width={width}
        height={chooser ? height - CHOOSER_HEIGHT : height}
        noHeader={!option(panel, 'showHeader', true)}
        cellHeight={option<TableCellHeight | undefined>(panel, 'cellHeight', undefined)}
        sortBy={option(panel, 'sortBy', undefined)}
        enablePagination={option(panel, 'enablePagination', false)}
        noValue={panel.fieldConfig?.defaults.noValue}
        fieldConfig={panel.fieldConfig}
        structureRev={rev}
        timeRange={range}
        resizable
        enableVirtualization
      />
      {chooser && (
        <Combobox<number>
          options={frames.map((f, i) => ({ value: i, label: getFrameDisplayName(f, i) }))}
          value={index}
          onChange={(chosen) => setPicked(chosen.value)}
        />
      )}
    </div>
  );
}
