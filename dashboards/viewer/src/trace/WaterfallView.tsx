// SPDX-License-Identifier: Apache-2.0
// A trace as a waterfall: one group per rank, one bar per span, a span's tags on click.
import { css, cx } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { dateTimeFormat } from '@grafana/data';
import { Icon, useStyles2, useTheme2 } from '@grafana/ui';
import { useState } from 'react';

import type { SpanRow, Waterfall } from './model';
import { durationLabel } from './model';

/** Beyond this a page of bars helps nobody and the browser slows down. */
const MOST_SPANS = 2000;
const TICKS = [0, 0.25, 0.5, 0.75, 1];

export function WaterfallView({ waterfall }: { waterfall: Waterfall }) {
  const styles = useStyles2(getStyles);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  let left = MOST_SPANS;
  const toggle = (key: string) => {
    const next = new Set(closed);
    if (!next.delete(key)) {
      next.add(key);
    }
    setClosed(next);
  };
  return (
    <div className={styles.box} data-testid="trace">
      <div className={styles.grid}>
        <div className={styles.name} />
        <div className={styles.axis}>
          {TICKS.map((t) => (
            <span key={t} className={styles.tick} style={{ left: `${t * 100}%`, transform: t === 0 ? 'none' : `translateX(${t === 1 ? -100 : -50}%)` }}>
              {durationLabel(t * waterfall.duration)}
            </span>
          ))}
        </div>
      </div>
      {waterfall.groups.map((group) => {
        const rows = group.rows.slice(0, Math.max(0, left));
        left -= rows.length;
        return (
          <section key={group.key} data-testid="trace-group" data-group={group.key}>
            <button type="button" className={styles.group} onClick={() => toggle(group.key)} aria-expanded={!closed.has(group.key)}>
              <Icon name={closed.has(group.key) ? 'angle-right' : 'angle-down'} /> {group.title}
              <span className={styles.count}>{group.rows.length} spans</span>
            </button>
            {!closed.has(group.key) && rows.map((row) => <Span key={row.span.spanID} row={row} total={waterfall.duration} />)}
          </section>
        );
      })}
      {waterfall.spans > MOST_SPANS && <p className={styles.note}>showing {MOST_SPANS} of {waterfall.spans} spans</p>}
    </div>
  );
}

function Span({ row, total }: { row: SpanRow; total: number }) {
  const styles = useStyles2(getStyles);
  const theme = useTheme2();
  const [open, setOpen] = useState(false);
  const palette = theme.visualization.palette;
  // The same operation has the same colour on every rank.
  const hash = [...row.span.operationName].reduce((h, c) => (h * 31 + c.charCodeAt(0)) >>> 0, 7);
  const color = row.error ? theme.colors.error.main : theme.visualization.getColorByName(palette[hash % palette.length]);
  const from = (row.offset / total) * 100;
  const width = (row.span.duration / total) * 100;
  const right = from + width > 80;
  return (
    <div data-testid="span" data-operation={row.span.operationName} className={cx(open && styles.open)}>
      <button type="button" className={cx(styles.grid, styles.span)} onClick={() => setOpen(!open)} aria-expanded={open}>
        <div className={styles.name} style={{ paddingLeft: 24 + row.depth * 14 }} title={row.span.operationName}>
          {row.error && <Icon name="exclamation-circle" className={styles.error} />} {row.span.operationName}
        </div>
        <div className={styles.lane}>
          {TICKS.slice(1, -1).map((t) => (
            <i key={t} className={styles.line} style={{ left: `${t * 100}%` }} />
          ))}
          <div className={styles.bar} style={{ left: `${from}%`, width: `max(2px, ${width}%)`, background: color }} />
          <span className={styles.duration} style={right ? { right: `calc(${100 - from}% + 6px)` } : { left: `calc(${from + width}% + 6px)` }}>
            {durationLabel(row.span.duration)}
          </span>
        </div>
      </button>
      {open && (
        <dl className={styles.tags}>
          <dt>start</dt>
          <dd>{dateTimeFormat(row.span.startTime / 1000, { format: 'YYYY-MM-DD HH:mm:ss.SSS' })} (+{durationLabel(row.offset)})</dd>
          <dt>service</dt>
          <dd>{row.process.serviceName}</dd>
          {row.tags.map(([key, value], i) => (
            <div key={i} style={{ display: 'contents' }}>
              <dt>{key}</dt>
              <dd>{value}</dd>
            </div>
          ))}
          {(row.span.logs ?? []).map((log, i) => (
            <div key={`log${i}`} style={{ display: 'contents' }}>
              <dt>event +{durationLabel(log.timestamp - row.span.startTime)}</dt>
              <dd>{log.fields.map((f) => `${f.key}=${String(f.value)}`).join('  ')}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  box: css({ background: theme.colors.background.primary, border: `1px solid ${theme.colors.border.weak}`, borderRadius: theme.shape.radius.default, paddingBottom: theme.spacing(1) }),
  grid: css({ display: 'grid', gridTemplateColumns: 'minmax(220px, 28%) 1fr', width: '100%' }),
  axis: css({ position: 'relative', height: 28, margin: theme.spacing(0, 2) }),
  tick: css({ position: 'absolute', whiteSpace: 'nowrap', top: 8, fontSize: theme.typography.bodySmall.fontSize, color: theme.colors.text.secondary }),
  group: css({
    display: 'flex',
    alignItems: 'center',
    gap: theme.spacing(0.5),
    width: '100%',
    padding: theme.spacing(0.5, 1),
    border: 0,
    borderTop: `1px solid ${theme.colors.border.weak}`,
    background: theme.colors.background.secondary,
    color: theme.colors.text.primary,
    fontWeight: theme.typography.fontWeightMedium,
  }),
  count: css({ marginLeft: theme.spacing(1), color: theme.colors.text.secondary, fontWeight: 'normal' }),
  span: css({ border: 0, padding: 0, background: 'none', color: 'inherit', textAlign: 'left', '&:hover': { background: theme.colors.action.hover } }),
  name: css({ padding: theme.spacing(0.25, 1), overflow: 'hidden', textOverflow: 'ellipsis', whiteSpace: 'nowrap' }),
  lane: css({ position: 'relative', height: 26, margin: theme.spacing(0, 2) }),
  line: css({ position: 'absolute', top: 0, bottom: 0, width: 1, background: theme.colors.border.weak }),
  bar: css({ position: 'absolute', top: 7, height: 12, borderRadius: 2 }),
  duration: css({ position: 'absolute', top: 4, fontSize: theme.typography.bodySmall.fontSize, color: theme.colors.text.secondary, whiteSpace: 'nowrap' }),
  error: css({ color: theme.colors.error.text }),
  open: css({ background: theme.colors.background.secondary }),
  tags: css({
    display: 'grid',
    gridTemplateColumns: 'max-content 1fr',
    gap: theme.spacing(0.25, 2),
    margin: 0,
    padding: theme.spacing(0.5, 4, 1),
    fontSize: theme.typography.bodySmall.fontSize,
    fontFamily: theme.typography.fontFamilyMonospace,
    dt: { color: theme.colors.text.secondary, fontWeight: 'normal' },
    dd: { margin: 0, overflowWrap: 'anywhere' },
  }),
  note: css({ padding: theme.spacing(1, 2), color: theme.colors.text.secondary }),
});
