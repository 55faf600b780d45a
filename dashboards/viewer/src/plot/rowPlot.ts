// SPDX-License-Identifier: Apache-2.0
// The plot that heatmap and state timeline share: time on x, named rows on y, everything inside drawn by the caller.
import type { GrafanaTheme2, TimeRange, TimeZone } from '@grafana/data';
import { AxisPlacement, GraphDrawStyle, ScaleDirection, ScaleOrientation, VisibilityMode } from '@grafana/schema';
import { UPlotConfigBuilder } from '@grafana/ui';
import type uPlot from 'uplot';

import { labelledRows } from './grid';

export interface RowPlot {
  rows: string[];
  range: () => TimeRange;
  timeZone: TimeZone;
  theme: GrafanaTheme2;
  width: number;
  height: number;
  draw: (u: uPlot) => void;
  hover: (position: { time: number; row: number; x: number; y: number } | null) => void;
  zoom: (from: number, to: number) => void;
}

/** Names of layers are long; a wide panel can afford more of them. */
const LABEL_SHARE = 0.22;
const WIDEST_LABEL = 180;
const AXIS_HEIGHT = 40;
const AXIS_FONT_PX = 12;

export function rowPlot({ rows, range, timeZone, theme, width, height, draw, hover, zoom }: RowPlot): UPlotConfigBuilder {
  const builder = new UPlotConfigBuilder(timeZone);
  const labelled = labelledRows(rows.length, height - AXIS_HEIGHT);
  const measure = textMeasure(theme);
  const widestOf = (names: string[]) => labelled.reduce((most, r) => Math.max(most, measure(names[r])), 0);
  const room = Math.max(WIDEST_LABEL, width * LABEL_SHARE);
  const names = widestOf(rows) > room ? withoutCommonEnds(rows) : rows;
  const labelWidth = Math.min(room, widestOf(names));
  builder.addScale({
    scaleKey: 'x',
    isTime: true,
    orientation: ScaleOrientation.Horizontal,
    direction: ScaleDirection.Right,
    range: () => [range().from.valueOf(), range().to.valueOf()],
  });
  builder.addScale({ scaleKey: 'y', orientation: ScaleOrientation.Vertical, direction: ScaleDirection.Up, range: () => [0, rows.length] });
  builder.addAxis({ scaleKey: 'x', isTime: true, placement: AxisPlacement.Bottom, theme, timeZone, grid: { show: false } });
  builder.addAxis({
    scaleKey: 'y',
    placement: AxisPlacement.Left,
    theme,
    size: labelWidth + 16,
    grid: { show: false },
    ticks: { show: false },
    splits: () => labelled.map((r) => r + 0.5),
    values: (_u, splits) => splits.map((s) => fit(names[Math.floor(s)] ?? '', labelWidth, measure)),
  });
  builder.addSeries({ scaleKey: 'y', theme, pathBuilder: () => null, drawStyle: GraphDrawStyle.Line, showPoints: VisibilityMode.Never });
  builder.setCursor({ points: { show: false }, y: false, drag: { x: true, y: false, setScale: false } });
  builder.addHook('draw', draw);
  builder.addHook('setSelect', (u) => {
    if (u.select.width > 5) {
      zoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }
  });
  builder.addHook('setCursor', (u) => {
    const { left = -1, top = -1 } = u.cursor;
    if (left < 0 || top < 0) {
      hover(null);
      return;
    }
    const box = u.over.getBoundingClientRect();
    hover({ time: u.posToVal(left, 'x'), row: Math.floor(u.posToVal(top, 'y')), x: box.left + left, y: box.top + top });
  });
  return builder;
}

/** measureText of @grafana/ui measures in a font that may not be there; this one measures what the axis draws. */
function textMeasure(theme: GrafanaTheme2): (text: string) => number {
  const context = document.createElement('canvas').getContext('2d')!;
  context.font = `${AXIS_FONT_PX}px ${theme.typography.fontFamily}`;
  return (text) => context.measureText(text).width;
}

/** "model.blocks.0.attn.weight", "model.blocks.1.attn.weight" -> "…0…", "…1…": what all share says nothing. */
export function withoutCommonEnds(names: string[]): string[] {
  if (names.length < 2) {
    return names;
  }
  const common = (of: (name: string, i: number) => string) => {
    let n = 0;
    const shortest = Math.min(...names.map((name) => name.length));
    while (n < shortest && names.every((name) => of(name, n) === of(names[0], n))) {
      n++;
    }
    return n;
  };
  const head = common((name, i) => name[i]);
  const tail = common((name, i) => name[name.length - 1 - i]);
  // Cut between words only: "block1" and "block10" share digits, not a prefix.
  const prefix = names[0].slice(0, head).replace(/[^./_\s-]*$/, '').length;
  const suffix = names[0].slice(names[0].length - tail).replace(/^[^./_\s-]*/, '').length;
  return names.map((name) => {
    const kept = name.slice(prefix, Math.max(prefix + 1, name.length - suffix));
    return `${prefix > 0 ? '…' : ''}${kept}${suffix > 0 ? '…' : ''}`;
  });
}

/** What is left too long loses its middle: names differ at their ends. */
export function fit(text: string, width: number, measure: (text: string) => number): string {
  if (measure(text) <= width) {
    return text;
  }
  let keep = text.length - 1;
  while (keep > 4 && measure(`${text.slice(0, keep)}…`) > width) {
    keep--;
  }
  const head = Math.ceil(keep / 3);
  return `${text.slice(0, head)}…${text.slice(text.length - (keep - head))}`;
}
