// SPDX-License-Identifier: Apache-2.0
// Log lines, newest first, with their fields on click.
import { css, cx } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { dateTimeFormat } from '@grafana/data';
import { useStyles2 } from '@grafana/ui';
import { useMemo, useState } from 'react';

import { safeHref } from '../links/href';
import type { PanelProps } from './props';
import { option } from './props';

interface Line {
  time: number;
  message: string;
  fields: Record<string, string>;
}

const LEVEL_FIELDS = ['severity_text', 'severity', 'level'];
const TRACE_FIELDS = ['trace_id', 'traceID', 'traceId'];

export function levelOf(fields: Record<string, string>): 'error' | 'warning' | 'info' | 'debug' {
  const text = (LEVEL_FIELDS.map((name) => fields[name]).find(Boolean) ?? '').toLowerCase();
  if (/^(err|crit|fatal|alert|emerg|panic)/.test(text)) {
    return 'error';
  }
  if (text.startsWith('warn')) {
    return 'warning';
  }
  return /^(debug|trace)/.test(text) ? 'debug' : 'info';
}

/** Hexadecimal only: the id becomes part of an address. */
export function traceHref(fields: Record<string, string>): string | undefined {
  const id = TRACE_FIELDS.map((name) => fields[name]).find(Boolean);
  return id && /^[0-9a-f]{16,32}$/i.test(id) && !/^0+$/.test(id) ? safeHref(`/trace/${id}`) : undefined;
}

export function LogsPanel({ panel, frames, timeZone, width, height }: PanelProps) {
  const styles = useStyles2(getStyles);
  const [open, setOpen] = useState<number | null>(null);
  const lines = useMemo((): Line[] => {
    const all = frames.flatMap((frame) => {
      const [time, line, labels] = frame.fields;
      return Array.from({ length: frame.length }, (_, i): Line => ({ time: time.values[i], message: line.values[i], fields: labels?.values[i] ?? {} }));
    });
    const order = option<string>(panel, 'sortOrder', 'Descending') === 'Ascending' ? 1 : -1;
    return all.sort((a, b) => order * (a.time - b.time));
  }, [frames, panel]);
  const wrap = option(panel, 'wrapLogMessage', true);
  return (
    <div className={styles.list} style={{ width, height }} role="list">
      {lines.map((line, i) => {
        const level = levelOf(line.fields);
        const rank = line.fields['dist.rank'] ?? line.fields.dist_rank;
        const href = traceHref(line.fields);
        return (
          <div key={i} role="listitem" data-testid="log-line" data-level={level} className={cx(styles.item, styles[level])}>
            <button type="button" className={styles.line} onClick={() => setOpen(open === i ? null : i)} aria-expanded={open === i}>
              {option(panel, 'showTime', true) && <span className={styles.time}>{dateTimeFormat(line.time, { timeZone, format: 'MM-DD HH:mm:ss.SSS' })}</span>}
              {rank !== undefined && <span className={styles.rank}>rank {rank}</span>}
              <span className={wrap ? styles.wrapped : styles.single}>{line.message}</span>
            </button>
            {open === i && (
              <dl className={styles.fields}>
                {href && (
                  <>
                    <dt>trace</dt>
                    <dd>
                      <a href={href}>open the trace of this step</a>
                    </dd>
                  </>
                )}
                {Object.entries(line.fields).sort().map(([name, value]) => (
                  <div key={name} style={{ display: 'contents' }}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                  </div>
                ))}
              </dl>
            )}
          </div>
        );
      })}
    </div>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  list: css({ overflow: 'auto', fontFamily: theme.typography.fontFamilyMonospace, fontSize: theme.typography.bodySmall.fontSize }),
  item: css({ borderLeft: '3px solid transparent', '&:hover': { background: theme.colors.action.hover } }),
  error: css({ borderLeftColor: theme.colors.error.main }),
  warning: css({ borderLeftColor: theme.colors.warning.main }),
  info: css({ borderLeftColor: theme.visualization.getColorByName('green') }),
  debug: css({ borderLeftColor: theme.visualization.getColorByName('blue') }),
  line: css({ display: 'flex', gap: theme.spacing(1.5), width: '100%', padding: theme.spacing(0.25, 1), border: 0, background: 'none', color: 'inherit', textAlign: 'left' }),
  time: css({ color: theme.colors.text.secondary, whiteSpace: 'nowrap' }),
  rank: css({ color: theme.colors.text.link, whiteSpace: 'nowrap' }),
  wrapped: css({ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }),
  single: css({ whiteSpace: 'nowrap', overflow: 'hidden', textOverflow: 'ellipsis' }),
  fields: css({
    display: 'grid',
    gridTemplateColumns: 'max-content 1fr',
    gap: theme.spacing(0.25, 2),
    margin: theme.spacing(0.5, 2, 1),
    dt: { color: theme.colors.text.secondary, fontWeight: 'normal' },
    dd: { margin: 0, overflowWrap: 'anywhere' },
    a: { color: theme.colors.text.link },
  }),
});
