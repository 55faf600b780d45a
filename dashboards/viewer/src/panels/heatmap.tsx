// SPDX-License-Identifier: Apache-2.0
// Time by series: one coloured row per series, drawn as one image on the canvas.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { dateTimeFormat, formattedValueToString } from '@grafana/data';
import { UPlotChart, useStyles2 } from '@grafana/ui';
import { useMemo, useRef, useState } from 'react';
import type uPlot from 'uplot';

import { AnnotationsPlugin } from '../plot/AnnotationsPlugin';
import type { Grid } from '../plot/grid';
import { buildGrid, paintGrid } from '../plot/grid';
import type { Hover } from '../plot/HoverBox';
import { HoverBox } from '../plot/HoverBox';
import type { ColorOptions } from '../plot/palette';
import { cssGradient, paletteOf } from '../plot/palette';
import { rowPlot } from '../plot/rowPlot';
import type { PanelProps } from './props';
import { option } from './props';

const LEGEND_HEIGHT = 24;
/** A gap between cells is only drawn where a cell stays recognisable beside it. */
const SMALLEST_CELL_WITH_GAP = 8;

export function HeatmapPanel({ panel, frames, range, timeZone, theme, width, height, annotations, onZoom }: PanelProps) {
  const styles = useStyles2(getStyles);
  const [hover, setHover] = useState<Hover | null>(null);
  const color = option<ColorOptions>(panel, 'color', {});
  const showLegend = option<{ show?: boolean }>(panel, 'legend', { show: true }).show !== false;
  const grid = useMemo(() => {
    const start = performance.now();
    const built = buildGrid(frames, option<{ reverse?: boolean }>(panel, 'yAxis', {}).reverse);
    performance.measure('heatmap grid', { start });
    return built;
  }, [frames, panel]);
  const palette = useMemo(() => paletteOf(color, theme), [color, theme]);
  const min = color.min ?? grid.min;
  const max = color.max ?? grid.max;
  const plotHeight = showLegend ? height - LEGEND_HEIGHT : height;
  const display = useMemo(() => frames[0]?.fields.find((f) => f.type === 'number')?.display, [frames]);
  const show = (value: number) => (display ? formattedValueToString(display(value)) : value.toPrecision(4));

  // The plot is rebuilt only when rows change; what it reads while drawing is always the newest.
  const latest = useRef({ grid, range, palette, min, max, show, onZoom, panel });
  latest.current = { grid, range, palette, min, max, show, onZoom, panel };
  const rowsKey = grid.rows.join('\n');
  const config = useMemo(
    () =>
      rowPlot({
        rows: grid.rows,
        range: () => latest.current.range,
        timeZone,
        theme,
        width,
        height: plotHeight,
        draw: (u) => {
          const start = performance.now();
          draw(u, latest.current, theme);
          performance.measure('heatmap draw', { start });
        },
        zoom: (from, to) => latest.current.onZoom(from, to),
        hover: (at) => {
          const now = latest.current;
          const columns = now.grid.times.length;
          const c = at ? Math.ceil((at.time - now.grid.times[0]) / now.grid.stepMs) : -1;
          const value = at && c >= 0 && c < columns ? now.grid.values[at.row * columns + c] : NaN;
          setHover(
            at && !Number.isNaN(value) && value !== undefined
              ? { x: at.x, y: at.y, title: dateTimeFormat(now.grid.times[c], { timeZone }), rows: [{ label: now.grid.rows[at.row], value: now.show(value) }] }
              : null
          );
        },
      }),
    // `rowsKey` stands for grid.rows.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [rowsKey, timeZone, theme, width, plotHeight]
  );
  const data = useMemo(() => [grid.times, grid.times.map(() => 0)] as uPlot.AlignedData, [grid]);

  return (
    <div onMouseLeave={() => setHover(null)}>
      <UPlotChart config={config} data={data} width={width} height={plotHeight}>
        <AnnotationsPlugin config={config} events={annotations} timeZone={timeZone} />
      </UPlotChart>
      {showLegend && (
        <div className={styles.legend}>
          <span>{show(min)}</span>
          <div className={styles.bar} style={{ background: cssGradient(palette) }} />
          <span>{show(max)}</span>
        </div>
      )}
      <HoverBox hover={hover} />
    </div>
  );
}

interface Drawn {
  grid: Grid;
  palette: Uint32Array;
  min: number;
  max: number;
  panel: PanelProps['panel'];
}

function draw(u: uPlot, { grid, palette, min, max, panel }: Drawn, theme: GrafanaTheme2): void {
  const columns = grid.times.length;
  if (columns === 0 || grid.rows.length === 0) {
    return;
  }
  const { ctx, bbox } = u;
  const height = Math.max(1, Math.min(grid.rows.length, Math.round(bbox.height)));
  const hideBelow = option<{ le?: number }>(panel, 'filterValues', {}).le;
  const pixels = paintGrid(grid, height, { palette, min, max, hideBelow });
  const image = document.createElement('canvas');
  image.width = columns;
  image.height = height;
  image.getContext('2d')!.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer as ArrayBuffer), columns, height), 0, 0);
  const left = u.valToPos(grid.times[0] - grid.stepMs, 'x', true);
  const right = u.valToPos(grid.times[columns - 1], 'x', true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(image, left, bbox.top, right - left, bbox.height);
  const gap = option(panel, 'cellGap', 1);
  if (gap > 0) {
    ctx.fillStyle = theme.colors.background.primary;
    const cell = bbox.height / grid.rows.length;
    for (let r = 1; cell >= SMALLEST_CELL_WITH_GAP && r < grid.rows.length; r++) {
      ctx.fillRect(bbox.left, Math.round(bbox.top + r * cell), bbox.width, gap);
    }
  }
  ctx.restore();
}

const getStyles = (theme: GrafanaTheme2) => ({
  legend: css({
    height: LEGEND_HEIGHT,
    display: 'flex',
    alignItems: 'center',
    gap: theme.spacing(1),
    paddingLeft: theme.spacing(1),
    fontSize: theme.typography.bodySmall.fontSize,
    color: theme.colors.text.secondary,
  }),
  bar: css({ width: 180, height: 8, borderRadius: 2 }),
});
