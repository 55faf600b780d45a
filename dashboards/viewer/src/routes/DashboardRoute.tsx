// SPDX-License-Identifier: Apache-2.0
// /d/:uid – loads a dashboard and the data sources, then shows it.
import { Alert, LoadingPlaceholder } from '@grafana/ui';

import { getDashboard, listDataSources } from '../api/server';
import { Page } from '../chrome/Page';
import { useLoaded } from '../chrome/useLoaded';
import { OpenDashboard } from '../dashboard/OpenDashboard';

export function DashboardRoute({ uid }: { uid: string }) {
  const dashboard = useLoaded(uid, (signal) => getDashboard(uid, signal));
  const sources = useLoaded('sources', (signal) => listDataSources(signal));
  const error = dashboard.error ?? sources.error;
  if (error) {
    return (
      <Page title="Dashboard">
        <Alert severity="error" title={`Dashboard "${uid}" cannot be shown`}>
          {error}
        </Alert>
      </Page>
    );
  }
  if (!dashboard.data || !sources.data) {
    return (
      <Page title="Dashboard">
        <LoadingPlaceholder text="Loading the dashboard…" />
      </Page>
    );
  }
  return <OpenDashboard key={uid} dashboard={dashboard.data} sources={sources.data} />;
}
