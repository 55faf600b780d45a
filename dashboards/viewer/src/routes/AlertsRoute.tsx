// SPDX-License-Identifier: Apache-2.0
// /alerts – the live list: firing first, with labels, texts, runbook and since when.
import { css, cx } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { dateTimeFormat } from '@grafana/data';
import { Alert as AlertBox, useStyles2 } from '@grafana/ui';

import type { Alert } from '../api/server';
import { ago, orderAlerts, runbookHref } from '../chrome/alerts';
import { useAlerts } from '../chrome/AlertsContext';
import { Page } from '../chrome/Page';
import { safeHref } from '../links/href';

const HIDDEN_LABELS = new Set(['alertname', 'severity']);
const HIDDEN_ANNOTATIONS = new Set(['summary', 'description', 'runbook_url']);

export function AlertsRoute() {
  const { data, error } = useAlerts();
  const alerts = orderAlerts(data?.alerts ?? []);
  return (
    <Page title="Alerts">
      {error && <AlertBox severity="error" title="The list of alerts is not up to date">{error}</AlertBox>}
      {data && !data.watchdog.healthy && (
        <AlertBox severity="warning" title="The dead man’s switch is silent">
          {data.watchdog.lastSeen ? `Last heard ${dateTimeFormat(data.watchdog.lastSeen)}. ` : 'It was never heard. '}
          Alerts may not arrive: check vmalert and Alertmanager with: glideslope status
        </AlertBox>
      )}
      {data && alerts.length === 0 && <AlertBox severity="success" title="Nothing fires, and nothing has fired" />}
      {alerts.map((alert) => (
        <Item key={alert.fingerprint + alert.startsAt} alert={alert} />
      ))}
    </Page>
  );
}

function Item({ alert }: { alert: Alert }) {
  const styles = useStyles2(getStyles);
  const start = Date.parse(alert.startsAt);
  const firing = alert.status === 'firing';
  const href = safeHref(runbookHref(alert) ?? '');
  const severity = alert.labels.severity ?? 'none';
  const run = alert.labels.run_id;
  return (
    <article
      className={cx(styles.item, firing && (severity === 'critical' ? styles.critical : styles.warning))}
      data-testid="alert"
      data-alertname={alert.labels.alertname}
      data-status={alert.status}
      data-severity={severity}
    >
      <header className={styles.header}>
        <strong className={styles.name}>{alert.labels.alertname}</strong>
        <span className={cx(styles.badge, firing ? styles.firing : styles.resolved)}>{alert.status}</span>
        <span className={styles.badge}>{severity}</span>
        <span className={styles.since}>
          {firing || !alert.endsAt
            ? `since ${dateTimeFormat(start)} (${ago(start, Date.now())})`
            : `${dateTimeFormat(start)} – ${dateTimeFormat(alert.endsAt)} (${ago(start, Date.parse(alert.endsAt))})`}
        </span>
      </header>
      {alert.annotations.summary && <p className={styles.summary}>{alert.annotations.summary}</p>}
      {alert.annotations.description && <p className={styles.description}>{alert.annotations.description}</p>}
      <div className={styles.labels}>
        {Object.entries(alert.labels).filter(([name]) => !HIDDEN_LABELS.has(name)).map(([name, value]) => (
          <code key={name} className={styles.label}>
            {name}={value}
          </code>
        ))}
      </div>
      {Object.entries(alert.annotations).filter(([name]) => !HIDDEN_ANNOTATIONS.has(name)).map(([name, value]) => (
        <p key={name} className={styles.description}>
          <strong>{name}</strong>: {value}
        </p>
      ))}
      <footer className={styles.links}>
        {href && (
          <a href={href} data-testid="runbook-link">
            Runbook
          </a>
        )}
        {run && <a href={`/d/glideslope-run?var-run=${encodeURIComponent(run)}`}>Run dashboard</a>}
      </footer>
    </article>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  item: css({
    marginBottom: theme.spacing(1),
    padding: theme.spacing(1.5, 2),
    background: theme.colors.background.primary,
    border: `1px solid ${theme.colors.border.weak}`,
    borderLeft: `4px solid ${theme.colors.border.strong}`,
    borderRadius: theme.shape.radius.default,
    overflowWrap: 'anywhere',
  }),
  critical: css({ borderLeftColor: theme.colors.error.main }),
  warning: css({ borderLeftColor: theme.colors.warning.main }),
  header: css({ display: 'flex', flexWrap: 'wrap', alignItems: 'center', gap: theme.spacing(1) }),
  name: css({ fontSize: theme.typography.h5.fontSize }),
  badge: css({ padding: '1px 8px', borderRadius: 10, fontSize: theme.typography.bodySmall.fontSize, background: theme.colors.background.secondary, color: theme.colors.text.secondary }),
  firing: css({ background: theme.colors.error.main, color: theme.colors.error.contrastText }),
  resolved: css({ background: theme.colors.success.transparent, color: theme.colors.success.text }),
  since: css({ marginLeft: 'auto', color: theme.colors.text.secondary }),
  summary: css({ margin: theme.spacing(1, 0, 0.5) }),
  description: css({ margin: theme.spacing(0, 0, 0.5), color: theme.colors.text.secondary, whiteSpace: 'pre-wrap' }),
  labels: css({ display: 'flex', flexWrap: 'wrap', gap: theme.spacing(0.5), margin: theme.spacing(1, 0) }),
  label: css({ padding: '1px 6px', background: theme.colors.background.canvas, border: `1px solid ${theme.colors.border.weak}`, borderRadius: 2, fontSize: 12, whiteSpace: 'normal' }),
  links: css({ display: 'flex', gap: theme.spacing(2), a: { color: theme.colors.text.link, '&:hover': { textDecoration: 'underline' } } }),
});
