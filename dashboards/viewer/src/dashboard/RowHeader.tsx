// SPDX-License-Identifier: Apache-2.0
// A row's title, which opens and closes the panels below it.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { Icon, useStyles2 } from '@grafana/ui';

import type { Box } from './layout';
import type { Panel } from './model';

export function RowHeader({ panel, title, box, onToggle }: { panel: Panel; title: string; box: Box; onToggle: () => void }) {
  const styles = useStyles2(getStyles);
  return (
    <button type="button" className={styles.row} style={box} onClick={onToggle} aria-expanded={!panel.collapsed} data-testid="row" data-row-title={title}>
      <Icon name={panel.collapsed ? 'angle-right' : 'angle-down'} />
      {title}
      {panel.collapsed && <span className={styles.count}>({panel.panels?.length ?? 0} panels)</span>}
    </button>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  row: css({
    position: 'absolute',
    display: 'flex',
    alignItems: 'center',
    gap: theme.spacing(0.5),
    padding: 0,
    border: 0,
    background: 'none',
    color: theme.colors.text.primary,
    fontSize: theme.typography.h5.fontSize,
    fontWeight: theme.typography.fontWeightMedium,
    '&:hover': { color: theme.colors.text.maxContrast },
  }),
  count: css({ color: theme.colors.text.secondary, fontWeight: 'normal' }),
});
