// SPDX-License-Identifier: Apache-2.0
// One row per series, coloured by its state over time.
import type { GrafanaTheme2 } from '@grafana/data';
import { dateTimeFormat } from '@grafana/data';
import { getTextColorForBackground, Pagination, UPlotChart, VizLegend } from '@grafana/ui';
import { LegendDisplayMode } from '@grafana/schema';
import { useEffect, useMemo, useRef, useState } from 'react';
import type uPlot from 'uplot';

import { AnnotationsPlugin } from '../plot/AnnotationsPlugin';
import type { Hover } from '../plot/HoverBox';
import { HoverBox } from '../plot/HoverBox';
import { rowPlot } from '../plot/rowPlot';
import { legendOf } from './legend';
import type { PanelProps } from './props';
import { option } from './props';
import type { StateRow } from './states';
import { stateRows, statesSeen } from './states';

const LEGEND_HEIGHT = 30;
const PAGER_HEIGHT = 36;
const MOST_LEGEND_ITEMS = 12;

export function StateTimelinePanel({ panel, frames, range, timeZone, theme, width, height, annotations, onZoom, onCapped }: PanelProps) {
  const [hover, setHover] = useState<Hover | null>(null);
  const [page, setPage] = useState(1);
  const all = useMemo(() => stateRows(frames, option(panel, 'mergeValues', true)), [frames, panel]);
  const perPage = option(panel, 'perPage', 50) || 50;
  const pages = Math.ceil(all.length / perPage);
  const current = Math.min(page, Math.max(1, pages));
  // The first series is the top row, as in a list.
  const rows = useMemo(() => all.slice((current - 1) * perPage, current * perPage).reverse(), [all, current, perPage]);
  const seen = useMemo(() => statesSeen(rows), [rows]);
  const showLegend = legendOf(panel).showLegend && seen.length <= MOST_LEGEND_ITEMS;
  const plotHeight = height - (showLegend ? LEGEND_HEIGHT : 0) - (pages > 1 ? PAGER_HEIGHT : 0);

  useEffect(() => {
    if (pages > 1) {
      onCapped(rows.length, all.length);
    }
  }, [pages, rows.length, all.length, onCapped]);

  const latest = useRef({ rows, range, onZoom, panel });
  latest.current = { rows, range, onZoom, panel };
  const rowsKey = rows.map((row) => row.name).join('\n');
  const config = useMemo(
    () =>
      rowPlot({
        rows: rows.map((row) => row.name),
        range: () => latest.current.range,
        timeZone,
        theme,
        width,
        height: plotHeight,
        draw: (u) => draw(u, latest.current.rows, latest.current.panel, theme),
        zoom: (from, to) => latest.current.onZoom(from, to),
        hover: (at) => {
          const row = at ? latest.current.rows[at.row] : undefined;
          const stretch = at && row?.stretches.find((s) => s.from <= at.time && at.time < s.to);
          setHover(
            at && row && stretch
              ? { x: at.x, y: at.y, title: row.name, rows: [{ label: `${dateTimeFormat(stretch.from, { timeZone })} – ${dateTimeFormat(stretch.to, { timeZone, format: 'HH:mm:ss' })}`, value: stretch.text, color: stretch.color }] }
              : null
          );
        },
      }),
    // `rowsKey` stands for the rows' names.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [rowsKey, timeZone, theme, width, plotHeight]
  );
  const data = useMemo(() => {
    const times = rows.flatMap((row) => row.stretches.map((s) => s.from)).sort((a, b) => a - b);
    return [times, times.map(() => 0)] as uPlot.AlignedData;
  }, [rows]);

  return (
    <div onMouseLeave={() => setHover(null)}>
      <UPlotChart config={config} data={data} width={width} height={plotHeight}>
        <AnnotationsPlugin config={config} events={annotations} timeZone={timeZone} />
      </UPlotChart>
      {showLegend && (
        <VizLegend placement="bottom" displayMode={LegendDisplayMode.List} items={seen.map(({ text, color }) => ({ label: text, color, yAxis: 1 }))} />
      )}
      {pages > 1 && <Pagination currentPage={current} numberOfPages={pages} onNavigate={setPage} />}
      <HoverBox hover={hover} />
    </div>
  );
}

function draw(u: uPlot, rows: StateRow[], panel: PanelProps['panel'], theme: GrafanaTheme2): void {
  const { ctx, bbox } = u;
  const cell = bbox.height / Math.max(1, rows.length);
  const bar = cell * option(panel, 'rowHeight', 0.9);
  const showText = option<string>(panel, 'showValue', 'auto') !== 'never';
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${12 * devicePixelRatio}px ${theme.typography.fontFamily}`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  rows.forEach((row, r) => {
    const y = u.valToPos(r + 1, 'y', true) + (cell - bar) / 2;
    for (const stretch of row.stretches) {
      const x = Math.round(u.valToPos(stretch.from, 'x', true));
      const x2 = Math.round(u.valToPos(stretch.to, 'x', true));
      const w = Math.max(1, x2 - x);
      ctx.fillStyle = stretch.color;
      ctx.globalAlpha = 0.85;
      ctx.fillRect(x, y, w, bar);
      ctx.globalAlpha = 1;
      const from = Math.max(x, bbox.left) + 5;
      if (showText && bar > 14 * devicePixelRatio && ctx.measureText(stretch.text).width + 10 < Math.min(x2, bbox.left + bbox.width) - from) {
        ctx.fillStyle = getTextColorForBackground(stretch.color);
        ctx.fillText(stretch.text, from, y + bar / 2);
      }
    }
  });
  ctx.restore();
}
