// SPDX-License-Identifier: Apache-2.0
// A dial per value, drawn here because @grafana/ui no longer exports one.
import type { FieldDisplay } from '@grafana/data';
import { formattedValueToString, getFieldColorModeForField, VizOrientation } from '@grafana/data';
import { VizRepeater } from '@grafana/ui';

import { fieldValues } from './fieldValues';
import type { PanelProps } from './props';
import { option } from './props';

const START = -120;
const SWEEP = 240;

function arc(cx: number, cy: number, r: number, from: number, to: number): string {
  const point = (degrees: number) => {
    const angle = ((degrees - 90) * Math.PI) / 180;
    return `${(cx + r * Math.cos(angle)).toFixed(2)} ${(cy + r * Math.sin(angle)).toFixed(2)}`;
  };
  return `M ${point(from)} A ${r} ${r} 0 ${to - from > 180 ? 1 : 0} 1 ${point(to)}`;
}

/** Share of the dial that is filled, 0 to 1. */
export function share(value: number, min = 0, max = 100): number {
  return Number.isFinite(value) && max > min ? Math.min(1, Math.max(0, (value - min) / (max - min))) : 0;
}

export function GaugePanel(props: PanelProps) {
  const { panel, frames, theme, width, height } = props;
  return (
    <VizRepeater<FieldDisplay>
      getValues={() => fieldValues(props)}
      source={frames}
      renderCounter={0}
      width={width}
      height={height}
      itemSpacing={8}
      autoGrid
      orientation={option(panel, 'orientation', VizOrientation.Auto)}
      renderValue={({ value, width: w, height: h, count }) => <Dial value={value} title={count > 1 ? value.display.title : undefined} width={w} height={h} theme={theme} />}
    />
  );
}

function Dial({ value, title, width, height, theme }: { value: FieldDisplay; title?: string; width: number; height: number; theme: PanelProps['theme'] }) {
  const titleHeight = title ? 18 : 0;
  const size = Math.max(20, Math.min(width, (height - titleHeight) * 1.25));
  const stroke = Math.max(6, size * 0.1);
  const r = size / 2 - stroke;
  const cx = width / 2;
  const cy = r + stroke;
  const filled = share(value.display.numeric, value.field.min ?? 0, value.field.max ?? 100);
  const color = value.display.color ?? theme.visualization.getColorByName(getFieldColorModeForField({ config: value.field } as never).id);
  return (
    <svg width={width} height={height} role="img" aria-label={`${value.display.title ?? ''} ${formattedValueToString(value.display)}`}>
      <path d={arc(cx, cy, r, START, START + SWEEP)} fill="none" stroke={theme.colors.background.secondary} strokeWidth={stroke} />
      {filled > 0 && <path d={arc(cx, cy, r, START, START + SWEEP * filled)} fill="none" stroke={color} strokeWidth={stroke} />}
      <text x={cx} y={cy + size * 0.06} textAnchor="middle" fill={color} fontSize={Math.max(12, size * 0.17)} fontWeight={500}>
        {formattedValueToString(value.display)}
      </text>
      {title && (
        <text x={cx} y={height - 4} textAnchor="middle" fill={theme.colors.text.primary} fontSize={12}>
          {title}
        </text>
      )}
    </svg>
  );
}
