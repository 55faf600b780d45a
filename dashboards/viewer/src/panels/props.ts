// SPDX-License-Identifier: Apache-2.0
// What every panel component is given. Types only.
import type { DataFrame, GrafanaTheme2, TimeRange, TimeZone } from '@grafana/data';

import type { AnnotationEvent } from '../annotations/fold';
import type { Panel } from '../dashboard/model';
import type { Lookup } from '../query/interpolate';

export interface PanelProps {
  panel: Panel;
  /** With displays, colours and links already applied. */
  frames: DataFrame[];
  range: TimeRange;
  timeZone: TimeZone;
  theme: GrafanaTheme2;
  width: number;
  height: number;
  annotations: AnnotationEvent[];
  lookup: Lookup;
  /** A person selected a stretch of time, in milliseconds. */
  onZoom: (from: number, to: number) => void;
  /** Tells the frame that the panel draws fewer series than it was given. */
  onCapped: (shown: number, total: number) => void;
}

/** Options are read one at a time with a default, as the JSON may come from a newer or older generator. */
export function option<T>(panel: Panel, name: string, fallback: T): T {
  return (panel.options?.[name] as T | undefined) ?? fallback;
}
