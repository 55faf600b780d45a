// SPDX-License-Identifier: Apache-2.0
// Colours of heatmaps: in go a heatmap's colour options, out come 256 packed pixels.
import type { GrafanaTheme2 } from '@grafana/data';
import { colorManipulator } from '@grafana/data';
import * as schemes from 'd3-scale-chromatic';

export interface ColorOptions {
  mode?: 'scheme' | 'opacity';
  scheme?: string;
  fill?: string;
  exponent?: number;
  reverse?: boolean;
  steps?: number;
  min?: number;
  max?: number;
}

const SIZE = 256;

/** Schemes that run from light to dark start at the light end, which glares on a dark page: Grafana turns them round. */
const DIVERGING = /^(RdBu|PRGn|PiYG|PuOr|BrBG|RdGy|RdYlBu|RdYlGn|Spectral|Turbo|Viridis|Inferno|Magma|Plasma|Cividis|Warm|Cool|CubehelixDefault|Rainbow|Sinebow)$/;

export function paletteOf(options: ColorOptions, theme: GrafanaTheme2): Uint32Array {
  const colorAt = options.mode === 'opacity' ? opacity(options, theme) : scheme(options, theme);
  const steps = Math.max(2, Math.min(SIZE, options.steps ?? 64));
  const palette = new Uint32Array(SIZE);
  for (let i = 0; i < SIZE; i++) {
    const t = Math.min(steps - 1, Math.floor((i / SIZE) * steps)) / (steps - 1);
    palette[i] = pack(colorAt(options.reverse ? 1 - t : t));
  }
  return palette;
}

function scheme(options: ColorOptions, theme: GrafanaTheme2): (t: number) => string {
  const name = options.scheme ?? 'Oranges';
  const interpolators = schemes as unknown as Record<string, ((t: number) => string) | undefined>;
  const interpolate = interpolators[`interpolate${name}`] ?? schemes.interpolateOranges;
  return theme.isDark && !DIVERGING.test(name) ? (t) => interpolate(1 - t) : interpolate;
}

function opacity(options: ColorOptions, theme: GrafanaTheme2): (t: number) => string {
  const color = theme.visualization.getColorByName(options.fill ?? 'dark-orange');
  return (t) => colorManipulator.alpha(color, Math.pow(t, options.exponent ?? 0.5));
}

function pack(color: string): number {
  const { values } = colorManipulator.decomposeColor(color);
  const [r, g, b, a = 1] = values as unknown as number[];
  return ((Math.round(a * 255) << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

export function cssGradient(palette: Uint32Array): string {
  const stops = [0, 51, 102, 153, 204, 255].map((i) => {
    const p = palette[i];
    return `rgba(${p & 255},${(p >> 8) & 255},${(p >> 16) & 255},${(p >>> 24) / 255})`;
  });
  return `linear-gradient(to right, ${stops.join(', ')})`;
}
