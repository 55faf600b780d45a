// SPDX-License-Identifier: Apache-2.0
// The pages by address.
import { ThemeContext } from '@grafana/data';
import { Alert, ErrorBoundaryAlert, GlobalStyles, PortalContainer } from '@grafana/ui';
import { Route, Switch } from 'wouter';

import { AlertsProvider } from './chrome/AlertsContext';
import { Page } from './chrome/Page';
import { AlertsRoute } from './routes/AlertsRoute';
import { DashboardRoute } from './routes/DashboardRoute';
import { HomeRoute } from './routes/HomeRoute';
import { RunbookRoute } from './routes/RunbookRoute';
import { ExploreRoute, TraceRoute } from './routes/TraceRoute';
import { makeTheme } from './theme';

const theme = makeTheme(window.location.search);

export function App() {
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <ErrorBoundaryAlert>
        <AlertsProvider>
          <Switch>
            <Route path="/" component={HomeRoute} />
            {/* Grafana's addresses end in a slug, which names nothing. */}
            <Route path="/d/:uid/:slug?">{({ uid }) => <DashboardRoute uid={uid} />}</Route>
            <Route path="/alerts" component={AlertsRoute} />
            <Route path="/runbooks/:name">{({ name }) => <RunbookRoute name={name} />}</Route>
            <Route path="/trace/:traceId">{({ traceId }) => <TraceRoute traceId={traceId} />}</Route>
            <Route path="/explore" component={ExploreRoute} />
            <Route>
              <Page title="Not found">
                <Alert severity="warning" title="There is no such page">
                  Go back to the list of dashboards.
                </Alert>
              </Page>
            </Route>
          </Switch>
        </AlertsProvider>
      </ErrorBoundaryAlert>
      <PortalContainer />
    </ThemeContext.Provider>
  );
}
