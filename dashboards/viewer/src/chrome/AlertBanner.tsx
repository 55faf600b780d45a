// SPDX-License-Identifier: Apache-2.0
// Firing alerts above a dashboard or list: name, cause, what to do.
import { css, cx } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { Icon, useStyles2 } from '@grafana/ui';

import type { Alert } from '../api/server';
import { safeHref } from '../links/href';
import { ago, runbookHref } from './alerts';

const MOST = 5;

export function AlertBanner({ alerts }: { alerts: Alert[] }) {
  const styles = useStyles2(getStyles);
  if (alerts.length === 0) {
    return null;
  }
  return (
    <div className={styles.list} data-testid="alert-banner" role="alert">
      {alerts.slice(0, MOST).map((alert) => {
        const href = safeHref(runbookHref(alert) ?? '');
        return (
          <div key={alert.fingerprint + alert.startsAt} className={cx(styles.alert, alert.labels.severity !== 'critical' && styles.warning)}>
            <Icon name="exclamation-triangle" />
            <strong>{alert.labels.alertname}</strong>
            <span className={styles.text}>{alert.annotations.summary ?? alert.annotations.description ?? ''}</span>
            {alert.labels.run_id && <code>{alert.labels.run_id}</code>}
            <span className={styles.since}>for {ago(Date.parse(alert.startsAt), Date.now())}</span>
            {href && <a href={href}>runbook</a>}
          </div>
        );
      })}
      {alerts.length > MOST && <a href="/alerts">and {alerts.length - MOST} more</a>}
    </div>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  list: css({ display: 'flex', flexDirection: 'column', gap: theme.spacing(0.5), marginBottom: theme.spacing(1) }),
  alert: css({
    display: 'flex',
    alignItems: 'center',
    gap: theme.spacing(1.5),
    padding: theme.spacing(0.75, 1.5),
    color: theme.colors.error.text,
    background: theme.colors.error.transparent,
    border: `1px solid ${theme.colors.error.border}`,
    borderRadius: theme.shape.radius.default,
    code: { color: theme.colors.text.primary },
    a: { color: theme.colors.text.link, textDecoration: 'underline' },
  }),
  warning: css({ color: theme.colors.warning.text, background: theme.colors.warning.transparent, borderColor: theme.colors.warning.border }),
  text: css({ flex: 1, color: theme.colors.text.primary, overflowWrap: 'anywhere' }),
  since: css({ color: theme.colors.text.secondary, whiteSpace: 'nowrap' }),
});
