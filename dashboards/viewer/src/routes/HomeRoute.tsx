// SPDX-License-Identifier: Apache-2.0
// / – the dashboards, and what fires.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { Alert, LoadingPlaceholder, TagList, useStyles2 } from '@grafana/ui';
import { Link } from 'wouter';

import { listDashboards } from '../api/server';
import { AlertBanner } from '../chrome/AlertBanner';
import { firingFor } from '../chrome/alerts';
import { useAlerts } from '../chrome/AlertsContext';
import { Page } from '../chrome/Page';
import { useLoaded } from '../chrome/useLoaded';

export function HomeRoute() {
  const styles = useStyles2(getStyles);
  const dashboards = useLoaded('dashboards', listDashboards);
  const { data } = useAlerts();
  return (
    <Page title="Dashboards">
      <AlertBanner alerts={firingFor(data?.alerts ?? [], 'all')} />
      {dashboards.error && <Alert severity="error" title="The list of dashboards cannot be shown">{dashboards.error}</Alert>}
      {!dashboards.data && !dashboards.error && <LoadingPlaceholder text="Loading dashboards…" />}
      {dashboards.data?.length === 0 && <Alert severity="info" title="No dashboards">Make them with: glideslope render</Alert>}
      <div className={styles.grid}>
        {dashboards.data?.map((dashboard) => (
          <Link key={dashboard.uid} href={`/d/${encodeURIComponent(dashboard.uid)}`} className={styles.card} data-testid="dashboard-card">
            <h2 className={styles.title}>{dashboard.title}</h2>
            <p className={styles.text}>{dashboard.description}</p>
            <TagList tags={dashboard.tags ?? []} className={styles.tags} />
          </Link>
        ))}
      </div>
    </Page>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  grid: css({ display: 'grid', gridTemplateColumns: 'repeat(auto-fill, minmax(300px, 1fr))', gap: theme.spacing(2) }),
  card: css({
    display: 'flex',
    flexDirection: 'column',
    padding: theme.spacing(2),
    background: theme.colors.background.primary,
    border: `1px solid ${theme.colors.border.weak}`,
    borderRadius: theme.shape.radius.default,
    '&:hover': { background: theme.colors.background.secondary, borderColor: theme.colors.border.medium },
  }),
  title: css({ fontSize: theme.typography.h4.fontSize, margin: 0 }),
  text: css({ flex: 1, margin: theme.spacing(1, 0, 2), color: theme.colors.text.secondary }),
  tags: css({ justifyContent: 'flex-start' }),
});
