// SPDX-License-Identifier: Apache-2.0
// Clicks on legends: which series a person switched off. In goes a click, out come frames with custom.hideFrom set.
import type { DataFrame } from '@grafana/data';
import { FieldType, getFieldDisplayName } from '@grafana/data';

/** A plain click shows one series alone, or all again; with a modifier key it switches one on or off. */
export function toggleSeries(hidden: ReadonlySet<string>, label: string, all: string[], one: boolean): Set<string> {
  if (one) {
    const next = new Set(hidden);
    if (!next.delete(label)) {
      next.add(label);
    }
    return next;
  }
  const others = all.filter((name) => name !== label);
  const alone = !hidden.has(label) && others.length > 0 && others.every((name) => hidden.has(name));
  return alone ? new Set() : new Set(others);
}

export function seriesNames(frames: DataFrame[]): string[] {
  return frames.flatMap((frame) =>
    frame.fields.filter((field) => field.type === FieldType.number).map((field) => getFieldDisplayName(field, frame, frames))
  );
}

export function hideSeries(frames: DataFrame[], hidden: ReadonlySet<string>): DataFrame[] {
  if (hidden.size === 0) {
    return frames;
  }
  return frames.map((frame) => ({
    ...frame,
    fields: frame.fields.map((field) => {
      const name = getFieldDisplayName(field, frame, frames);
      // An XY chart names its series by the frame.
      if (field.type !== FieldType.number || !(hidden.has(name) || (frame.name !== undefined && hidden.has(frame.name)))) {
        return field;
      }
      const custom = { ...(field.config.custom as object | undefined), hideFrom: { viz: true, legend: false, tooltip: true } };
      return { ...field, config: { ...field.config, custom } };
    }),
  }));
}
