// SPDX-License-Identifier: Apache-2.0
// The frame of every page: name, the way to the lists, how many alerts fire, whether the alert chain is alive.
import { css, cx } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { Icon, Tooltip, useStyles2 } from '@grafana/ui';
import type { ReactNode } from 'react';
import { useEffect } from 'react';
import { Link, useLocation } from 'wouter';

import { useAlerts } from './AlertsContext';

export function Page({ title, toolbar, children }: { title: ReactNode; toolbar?: ReactNode; children: ReactNode }) {
  const styles = useStyles2(getStyles);
  const [path] = useLocation();
  const { data } = useAlerts();
  const firing = data?.alerts.filter((alert) => alert.status === 'firing').length ?? 0;
  useEffect(() => {
    document.title = typeof title === 'string' ? `${title} · glideslope` : 'glideslope';
  }, [title]);
  return (
    <div className={styles.page}>
      <header className={styles.header}>
        <Link href="/" className={styles.brand}>
          <img src="/favicon.svg" alt="" width={22} height={22} /> glideslope
        </Link>
        <nav className={styles.nav}>
          <Link href="/" className={cx(styles.link, (path === '/' || path.startsWith('/d/')) && styles.active)}>
            Dashboards
          </Link>
          <Link href="/alerts" className={cx(styles.link, path === '/alerts' && styles.active)}>
            Alerts {firing > 0 && <span className={styles.count} data-testid="firing-count">{firing}</span>}
          </Link>
        </nav>
        {data && (
          <Tooltip content={data.watchdog.healthy ? 'The alert chain is alive: its dead man’s switch was heard.' : 'The dead man’s switch was not heard: alerts may not arrive. Check with: glideslope status'}>
            <span className={cx(styles.watchdog, !data.watchdog.healthy && styles.silent)} data-testid="watchdog" data-healthy={data.watchdog.healthy}>
              <Icon name={data.watchdog.healthy ? 'heart' : 'heart-break'} size="sm" /> {data.watchdog.healthy ? 'alerting' : 'alerting silent'}
            </span>
          </Tooltip>
        )}
      </header>
      <div className={styles.bar}>
        <h1 className={styles.title}>{title}</h1>
        <div className={styles.toolbar}>{toolbar}</div>
      </div>
      <main className={styles.main}>{children}</main>
    </div>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  page: css({ minHeight: '100vh', background: theme.colors.background.canvas, color: theme.colors.text.primary }),
  header: css({
    display: 'flex',
    alignItems: 'center',
    gap: theme.spacing(3),
    height: 40,
    padding: theme.spacing(0, 2),
    background: theme.colors.background.primary,
    borderBottom: `1px solid ${theme.colors.border.weak}`,
  }),
  brand: css({ display: 'flex', alignItems: 'center', gap: theme.spacing(1), fontWeight: theme.typography.fontWeightMedium, color: theme.colors.text.primary }),
  nav: css({ display: 'flex', gap: theme.spacing(2), flex: 1 }),
  link: css({ display: 'inline-flex', alignItems: 'center', gap: theme.spacing(0.75), color: theme.colors.text.secondary, '&:hover': { color: theme.colors.text.primary } }),
  active: css({ color: theme.colors.text.primary }),
  count: css({ padding: '0 6px', borderRadius: 8, fontSize: 11, lineHeight: '16px', color: theme.colors.error.contrastText, background: theme.colors.error.main }),
  watchdog: css({ display: 'inline-flex', alignItems: 'center', gap: theme.spacing(0.5), fontSize: theme.typography.bodySmall.fontSize, color: theme.colors.success.text }),
  silent: css({ color: theme.colors.warning.text }),
  bar: css({ display: 'flex', flexWrap: 'wrap', alignItems: 'center', gap: theme.spacing(1, 2), padding: theme.spacing(1.5, 2, 1) }),
  title: css({ margin: 0, fontSize: theme.typography.h3.fontSize, flex: 1, minWidth: 200 }),
  toolbar: css({ display: 'flex', flexWrap: 'wrap', alignItems: 'center', gap: theme.spacing(1) }),
  main: css({ padding: theme.spacing(0, 2, 4) }),
});
