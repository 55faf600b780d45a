// SPDX-License-Identifier: Apache-2.0
// Any number against any other: metric by step, several runs on one chart.
import type { GrafanaTheme2 } from '@grafana/data';
import { formattedValueToString, getFieldSeriesColor } from '@grafana/data';
import type { ScaleDistributionConfig } from '@grafana/schema';
import { AxisPlacement, ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { UPlotChart, UPlotConfigBuilder, usePanelContext, VizLayout, VizLegend } from '@grafana/ui';
import { useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';

import type { Hover } from '../plot/HoverBox';
import { HoverBox } from '../plot/HoverBox';
import { MOST_SERIES } from '../query/run';
import { legendOf } from './legend';
import type { PanelProps } from './props';
import { option } from './props';
import type { XYSeries, XYSeriesOptions } from './xy';
import { xySeries } from './xy';

/** How near the pointer must be to a point, in pixels. */
const REACH = 30;

interface Drawn extends XYSeries {
  color: string;
  hidden: boolean;
}

export function XYChartPanel({ panel, frames, theme, width, height, timeZone, onCapped }: PanelProps) {
  const [hover, setHover] = useState<Hover | null>(null);
  const { onToggleSeriesVisibility } = usePanelContext();
  const { series, total } = useMemo(() => {
    const found = xySeries(frames, option(panel, 'mapping', 'auto'), option<XYSeriesOptions[]>(panel, 'series', []));
    const shown = found.slice(0, MOST_SERIES).map((s, i): Drawn => {
      const hide = s.y.config.custom?.hideFrom as { viz?: boolean } | undefined;
      // Colours go by a series' place, not by its field's, which counts x fields too.
      const color = getFieldSeriesColor({ ...s.y, state: { ...s.y.state, seriesIndex: i, displayName: s.name } }, theme).color;
      return { ...s, color, hidden: Boolean(hide?.viz) };
    });
    return { series: shown, total: found.length };
  }, [frames, panel, theme]);

  useEffect(() => {
    if (total > MOST_SERIES) {
      onCapped(MOST_SERIES, total);
    }
  }, [total, onCapped]);

  if (series.length === 0) {
    throw new Error('An XY chart needs two numeric fields in a frame. Check the names in options.series.');
  }
  const visible = useMemo(() => series.filter((s) => !s.hidden), [series]);
  const latest = useRef(visible);
  latest.current = visible;
  const key = JSON.stringify(visible.map((s) => [s.name, s.color, s.x.name, s.y.config.unit]));
  const config = useMemo(
    () => build(visible, theme, timeZone, (u) => setHover(nearest(u, latest.current))),
    // `key` stands for the visible series.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [key, theme, timeZone]
  );
  const data = useMemo(() => [null, ...visible.map((s) => [s.x.values, s.y.values])] as never, [visible]);
  const legend = legendOf(panel);

  return (
    <div onMouseLeave={() => setHover(null)}>
      <VizLayout
        width={width}
        height={height}
        legend={
          legend.showLegend ? (
            <VizLayout.Legend placement={legend.placement}>
              <VizLegend
                placement={legend.placement}
                displayMode={legend.displayMode}
                items={series.map((s) => ({ label: s.name, fieldName: s.name, color: s.color, yAxis: 1, disabled: s.hidden }))}
                onLabelClick={(item, event) => onToggleSeriesVisibility?.(item.label, (event.ctrlKey || event.metaKey || event.shiftKey ? 'append' : 'toggle') as never)}
              />
            </VizLayout.Legend>
          ) : null
        }
      >
        {(w, h) => <UPlotChart key={key} config={config} data={data} width={w} height={h} />}
      </VizLayout>
      <HoverBox hover={hover} />
    </div>
  );
}

function build(series: Drawn[], theme: GrafanaTheme2, timeZone: string, onMove: (u: uPlot) => void): UPlotConfigBuilder {
  const builder = new UPlotConfigBuilder(timeZone);
  const custom = (series[0]?.y.config.custom ?? {}) as { axisLabel?: string; scaleDistribution?: ScaleDistributionConfig };
  const xField = series[0]?.x;
  const xCustom = (xField?.config.custom ?? {}) as { axisLabel?: string };
  const yField = series[0]?.y;
  builder.setMode(2);
  // Room for the last label of the x axis, which stands under the plot's right edge.
  builder.setPadding([8, 24, 0, 0]);
  builder.addScale({
    scaleKey: 'x',
    orientation: ScaleOrientation.Horizontal,
    direction: ScaleDirection.Right,
    range: (_u, min, max) => (min === max ? [(min ?? 0) - 1, (max ?? 0) + 1] : [min, max]),
  });
  builder.addScale({
    scaleKey: 'y',
    orientation: ScaleOrientation.Vertical,
    direction: ScaleDirection.Up,
    distribution: custom.scaleDistribution?.type,
    log: custom.scaleDistribution?.log,
    min: yField?.config.min,
    max: yField?.config.max,
  });
  builder.addAxis({
    scaleKey: 'x',
    placement: AxisPlacement.Bottom,
    theme,
    label: xCustom.axisLabel || (xField ? xField.config.displayName : undefined) || undefined,
    formatValue: (v, decimals) => (xField?.display && xField.type === 'number' ? formattedValueToString(xField.display(v, decimals)) : String(v)),
  });
  builder.addAxis({
    scaleKey: 'y',
    placement: AxisPlacement.Left,
    theme,
    label: custom.axisLabel || undefined,
    formatValue: (v, decimals) => (yField?.display ? formattedValueToString(yField.display(v, decimals)) : String(v)),
    distr: custom.scaleDistribution?.type,
  });
  for (const s of series) {
    builder.addSeries({
      scaleKey: '',
      theme,
      lineColor: s.color,
      facets: [
        { scale: 'x', auto: true },
        { scale: 'y', auto: true },
      ],
      pathBuilder: pathOf(s),
    } as never);
  }
  builder.setCursor({ points: { show: false }, drag: { x: false, y: false, setScale: false } });
  builder.addHook('setCursor', onMove);
  return builder;
}

function pathOf(s: Drawn): uPlot.Series.PathBuilder {
  const custom = (s.y.config.custom ?? {}) as { show?: string; lineWidth?: number; pointSize?: { fixed?: number } };
  const show = custom.show ?? 'points';
  return (u, seriesIdx) => {
    uPlot.orient(u, seriesIdx, (_series, _dx, _dy, scaleX, scaleY, valToPosX, valToPosY, xOff, yOff, xDim, yDim) => {
      const [xs, ys] = u.data[seriesIdx] as unknown as Array<Array<number | null>>;
      const { ctx } = u;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = s.color;
      ctx.lineWidth = (custom.lineWidth ?? 1.5) * devicePixelRatio;
      ctx.lineJoin = 'round';
      const radius = ((custom.pointSize?.fixed ?? 5) / 2) * devicePixelRatio;
      ctx.beginPath();
      let pen = false;
      for (let i = 0; i < xs.length; i++) {
        const x = xs[i];
        const y = ys[i];
        if (x == null || y == null || !Number.isFinite(y)) {
          pen = false;
          continue;
        }
        const px = valToPosX(x, scaleX, xDim, xOff);
        const py = valToPosY(y, scaleY, yDim, yOff);
        if (show !== 'points') {
          if (pen) {
            ctx.lineTo(px, py);
          } else {
            ctx.moveTo(px, py);
          }
          pen = true;
        }
        if (show !== 'lines') {
          ctx.moveTo(px + radius, py);
          ctx.arc(px, py, radius, 0, 2 * Math.PI);
          ctx.moveTo(px, py);
        }
      }
      ctx.stroke();
      if (show === 'points') {
        ctx.fill();
      }
      ctx.restore();
    });
    return null;
  };
}

function nearest(u: uPlot, series: Drawn[]): Hover | null {
  const { left = -1, top = -1 } = u.cursor;
  if (left < 0 || top < 0) {
    return null;
  }
  let best: { s: Drawn; i: number; d: number } | null = null;
  for (const s of series) {
    for (let i = 0; i < s.x.values.length; i++) {
      const x = s.x.values[i] as number | null;
      const y = s.y.values[i] as number | null;
      if (x == null || y == null) {
        continue;
      }
      const d = Math.hypot(u.valToPos(x, 'x') - left, u.valToPos(y, 'y') - top);
      if (d < (best?.d ?? REACH)) {
        best = { s, i, d };
      }
    }
  }
  if (!best) {
    return null;
  }
  const { s, i } = best;
  const box = u.over.getBoundingClientRect();
  const text = (field: Drawn['x']) => (field.display ? formattedValueToString(field.display(field.values[i])) : String(field.values[i]));
  return {
    x: box.left + left,
    y: box.top + top,
    title: s.name,
    rows: [
      { label: s.x.config.displayName ?? s.x.name, value: text(s.x) },
      { label: s.y.config.displayName ?? s.y.name, value: text(s.y), color: s.color },
    ],
  };
}
