// SPDX-License-Identifier: Apache-2.0
// A small box beside the pointer; in go rows of text.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { Portal, useStyles2 } from '@grafana/ui';

export interface Hover {
  x: number;
  y: number;
  title: string;
  rows: Array<{ label: string; value: string; color?: string }>;
}

export function HoverBox({ hover }: { hover: Hover | null }) {
  const styles = useStyles2(getStyles);
  if (!hover) {
    return null;
  }
  const left = hover.x > window.innerWidth - 320;
  const top = hover.y > window.innerHeight - 160;
  return (
    <Portal>
      <div
        className={styles.box}
        style={{
          [left ? 'right' : 'left']: left ? window.innerWidth - hover.x + 12 : hover.x + 12,
          [top ? 'bottom' : 'top']: top ? window.innerHeight - hover.y + 12 : hover.y + 12,
        }}
      >
        <div className={styles.title}>{hover.title}</div>
        {hover.rows.map((row, i) => (
          <div key={i} className={styles.row}>
            {row.color && <span className={styles.dot} style={{ background: row.color }} />}
            <span>{row.label}</span>
            <strong>{row.value}</strong>
          </div>
        ))}
      </div>
    </Portal>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  box: css({
    position: 'fixed',
    pointerEvents: 'none',
    zIndex: theme.zIndex.tooltip,
    maxWidth: 300,
    padding: theme.spacing(1),
    fontSize: theme.typography.bodySmall.fontSize,
    color: theme.colors.text.primary,
    background: theme.colors.background.elevated,
    border: `1px solid ${theme.colors.border.weak}`,
    borderRadius: theme.shape.radius.default,
    boxShadow: theme.shadows.z2,
    overflowWrap: 'anywhere',
  }),
  title: css({ color: theme.colors.text.secondary, marginBottom: theme.spacing(0.5) }),
  row: css({ display: 'flex', alignItems: 'center', gap: theme.spacing(1), justifyContent: 'space-between' }),
  dot: css({ width: 10, height: 10, borderRadius: 2, flex: 'none' }),
});
