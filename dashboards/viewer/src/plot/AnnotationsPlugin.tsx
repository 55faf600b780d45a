// SPDX-License-Identifier: Apache-2.0
// Annotation lines and their markers on a uPlot chart with time on x: in go the chart's config and events.
import { css } from '@emotion/css';
import type { GrafanaTheme2, TimeZone } from '@grafana/data';
import { dateTimeFormat } from '@grafana/data';
import type { UPlotConfigBuilder } from '@grafana/ui';
import { Tooltip, useStyles2 } from '@grafana/ui';
import { useEffect, useLayoutEffect, useRef, useState } from 'react';
import { createPortal } from 'react-dom';
import type uPlot from 'uplot';

import type { AnnotationEvent } from '../annotations/fold';

interface Props {
  config: UPlotConfigBuilder;
  events: AnnotationEvent[];
  timeZone: TimeZone;
}

interface Marker {
  left: number;
  width: number;
  event: AnnotationEvent;
}

export function AnnotationsPlugin({ config, events, timeZone }: Props) {
  const styles = useStyles2(getStyles);
  const latest = useRef(events);
  latest.current = events;
  const plot = useRef<uPlot | null>(null);
  const [markers, setMarkers] = useState<Marker[]>([]);
  const drawn = useRef('');

  useLayoutEffect(() => {
    config.addHook('init', (u) => {
      plot.current = u;
    });
    config.addHook('destroy', () => {
      plot.current = null;
    });
    config.addHook('draw', (u) => {
      const visible = drawLines(u, latest.current);
      const key = visible.map((m) => `${m.left} ${m.width} ${m.event.title} ${m.event.text}`).join('\n');
      if (key !== drawn.current) {
        drawn.current = key;
        setMarkers(visible);
      }
    });
  }, [config]);

  useEffect(() => plot.current?.redraw(false, false), [events]);

  const over = plot.current?.over;
  if (!over || markers.length === 0) {
    return null;
  }
  return createPortal(
    markers.map((marker, i) => (
      <Tooltip key={i} content={<Description event={marker.event} timeZone={timeZone} />}>
        <div
          className={styles.marker}
          data-testid="annotation"
          data-annotation-source={marker.event.source}
          data-annotation-title={marker.event.title}
          style={{ left: marker.left, width: Math.max(8, marker.width), marginLeft: marker.width > 8 ? 0 : -4, color: marker.event.color }}
        />
      </Tooltip>
    )),
    over
  );
}

function Description({ event, timeZone }: { event: AnnotationEvent; timeZone: TimeZone }) {
  return (
    <div>
      <strong>{event.title}</strong>
      <div>{dateTimeFormat(event.time, { timeZone })}</div>
      {event.text && <div style={{ whiteSpace: 'pre-wrap' }}>{event.text}</div>}
      {event.tags.length > 0 && <div style={{ opacity: 0.75 }}>{event.tags.join(', ')}</div>}
    </div>
  );
}

function drawLines(u: uPlot, events: AnnotationEvent[]): Marker[] {
  const { min, max } = u.scales.x;
  if (min == null || max == null) {
    return [];
  }
  const { ctx, bbox } = u;
  const visible: Marker[] = [];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const event of events) {
    const end = event.timeEnd ?? event.time;
    if (end < min || event.time > max) {
      continue;
    }
    const x = Math.round(u.valToPos(Math.max(event.time, min), 'x', true)) + 0.5;
    const x2 = Math.round(u.valToPos(Math.min(end, max), 'x', true)) + 0.5;
    ctx.strokeStyle = event.color;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const line of x2 > x ? [x, x2] : [x]) {
      ctx.beginPath();
      ctx.moveTo(line, bbox.top);
      ctx.lineTo(line, bbox.top + bbox.height);
      ctx.stroke();
    }
    if (x2 > x) {
      ctx.globalAlpha = 0.12;
      ctx.fillStyle = event.color;
      ctx.fillRect(x, bbox.top, x2 - x, bbox.height);
      ctx.globalAlpha = 1;
    }
    visible.push({ left: (x - bbox.left) / devicePixelRatio, width: (x2 - x) / devicePixelRatio, event });
  }
  ctx.restore();
  return visible;
}

const getStyles = (_theme: GrafanaTheme2) => ({
  marker: css({
    position: 'absolute',
    bottom: -5,
    height: 6,
    background: 'currentColor',
    clipPath: 'polygon(50% 0, 100% 100%, 0 100%)',
    cursor: 'pointer',
    zIndex: 1,
  }),
});
