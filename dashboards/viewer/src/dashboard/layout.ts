// SPDX-License-Identifier: Apache-2.0
// Where panels stand: in go the dashboard's panels, which rows are closed and the variables, out come placed panels.
import type { ScopedVars } from '@grafana/data';

import type { Variables } from '../query/scope';
import { isAll } from '../query/interpolate';
import type { Panel } from './model';

export const COLUMNS = 24;
export const ROW_HEIGHT = 30;
export const GAP = 8;

/** Copies of a panel that repeats by a variable; the copies after the first push what is below them down. */
export function expandRepeats(panels: Panel[], variables: Variables): Panel[] {
  const out: Panel[] = [];
  let pushed = 0;
  const ordered = [...panels].sort((a, b) => a.gridPos.y - b.gridPos.y || a.gridPos.x - b.gridPos.x);
  for (const original of ordered) {
    const panel = { ...original, gridPos: { ...original.gridPos, y: original.gridPos.y + pushed } };
    const values = panel.repeat && panel.type !== 'row' ? repeatValues(panel.repeat, variables) : [];
    if (values.length === 0) {
      out.push(panel);
      continue;
    }
    const copies = values.map((value, i) => copy(panel, value, i, values.length));
    out.push(...copies);
    pushed += Math.max(...copies.map((c) => c.gridPos.y + c.gridPos.h)) - (panel.gridPos.y + panel.gridPos.h);
  }
  return out;
}

function repeatValues(name: string, variables: Variables): string[] {
  const variable = variables.get(name);
  if (!variable) {
    return [];
  }
  return isAll(variable) ? (variable.options ?? []) : [variable.value].flat().filter(Boolean);
}

function copy(panel: Panel, value: string, index: number, count: number): Panel {
  const { gridPos, repeatDirection = 'h', maxPerRow = 4 } = panel;
  const scopedVars: ScopedVars = { ...panel.scopedVars, [panel.repeat!]: { value, text: value } };
  let position = { ...gridPos, y: gridPos.y + index * gridPos.h };
  if (repeatDirection === 'h') {
    const perRow = Math.min(count, maxPerRow);
    const w = Math.floor(COLUMNS / perRow);
    position = { ...gridPos, w, x: (index % perRow) * w, y: gridPos.y + Math.floor(index / perRow) * gridPos.h };
  }
  return { ...panel, gridPos: position, scopedVars, key: `${panel.id}-${index}` };
}

/** Open rows' panels are siblings that follow; closed rows carry theirs inside. A person's toggles override the JSON. */
export function placePanels(panels: Panel[], toggled: ReadonlyMap<number, boolean>): Panel[] {
  const ordered = [...panels].sort((a, b) => a.gridPos.y - b.gridPos.y || a.gridPos.x - b.gridPos.x);
  const out: Panel[] = [];
  let shift = 0;
  let hidden: { top: number; bottom: number } | null = null;
  const closeGap = () => {
    if (hidden) {
      shift -= hidden.bottom - hidden.top;
      hidden = null;
    }
  };
  for (const panel of ordered) {
    if (panel.type !== 'row') {
      if (hidden) {
        hidden.bottom = Math.max(hidden.bottom, panel.gridPos.y + panel.gridPos.h);
      } else {
        out.push(move(panel, shift));
      }
      continue;
    }
    closeGap();
    const collapsed = toggled.get(panel.id) ?? panel.collapsed ?? false;
    out.push({ ...move(panel, shift), collapsed });
    const below = panel.gridPos.y + 1;
    if (collapsed) {
      hidden = { top: below, bottom: below };
    } else if (panel.collapsed && panel.panels?.length) {
      // Panels inside a closed row stand where they stood when it was closed: bring them below the row.
      const top = Math.min(...panel.panels.map((p) => p.gridPos.y));
      const bottom = Math.max(...panel.panels.map((p) => p.gridPos.y + p.gridPos.h));
      out.push(...panel.panels.map((p) => move(p, shift + below - top)));
      shift += bottom - top;
    }
  }
  return out;
}

const move = (panel: Panel, dy: number): Panel => ({ ...panel, gridPos: { ...panel.gridPos, y: panel.gridPos.y + dy } });

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export function boxOf(panel: Panel, totalWidth: number): Box {
  const column = (totalWidth - GAP * (COLUMNS - 1)) / COLUMNS;
  const { x, y, w, h } = panel.gridPos;
  return {
    left: x * (column + GAP),
    top: y * (ROW_HEIGHT + GAP),
    width: w * column + (w - 1) * GAP,
    height: h * ROW_HEIGHT + (h - 1) * GAP,
  };
}

export const totalHeight = (panels: Panel[]): number =>
  panels.reduce((max, { gridPos }) => Math.max(max, (gridPos.y + gridPos.h) * (ROW_HEIGHT + GAP)), 0);
