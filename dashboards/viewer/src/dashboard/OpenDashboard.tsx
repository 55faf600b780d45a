// SPDX-License-Identifier: Apache-2.0
// A loaded dashboard: keeps its state in the address, its variables resolved and its panels supplied.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { EventBusSrv, rangeUtil } from '@grafana/data';
import { LoadingPlaceholder, useStyles2, useTheme2 } from '@grafana/ui';
import { useCallback, useMemo, useState } from 'react';
import { useLocation, useSearch } from 'wouter';

import { usable, useAnnotations } from '../annotations/useAnnotations';
import type { DataSource } from '../api/server';
import { AlertBanner } from '../chrome/AlertBanner';
import { firingFor } from '../chrome/alerts';
import { useAlerts } from '../chrome/AlertsContext';
import { Page } from '../chrome/Page';
import { isAll } from '../query/interpolate';
import type { DashboardScope } from '../query/scope';
import { DEFAULT_RANGE, rawToText, resolveRange } from '../time/range';
import { toList } from '../variables/choose';
import { useVariables } from '../variables/useVariables';
import { VariableBar } from '../variables/VariableBar';
import { AnnotationToggles } from './AnnotationToggles';
import type { DashboardShared } from './DashboardContext';
import { DashboardContext } from './DashboardContext';
import { DashboardLinks } from './DashboardLinks';
import type { Dashboard } from './model';
import { PanelGrid } from './PanelGrid';
import { TimeControls } from './TimeControls';
import type { UrlChange } from './urlState';
import { changeUrlState, parseUrlState } from './urlState';
import { useClock } from './useClock';

/** The variable by which dashboards select runs, and with them the alerts above. */
const RUN_VARIABLE = 'run';

export function OpenDashboard({ dashboard, sources }: { dashboard: Dashboard; sources: DataSource[] }) {
  const styles = useStyles2(getStyles);
  const theme = useTheme2();
  const search = useSearch();
  const [path, navigate] = useLocation();
  const url = useMemo(() => parseUrlState(search), [search]);
  const change = useCallback(
    (what: UrlChange) => navigate(`${path}?${changeUrlState(search, what)}`, { replace: what.viewPanel === undefined && what.from === undefined }),
    [navigate, path, search]
  );

  const timeZone = dashboard.timezone || 'browser';
  const rawFrom = url.from ?? dashboard.time?.from ?? String(DEFAULT_RANGE.from);
  const rawTo = url.to ?? dashboard.time?.to ?? String(DEFAULT_RANGE.to);
  const refresh = url.refresh ?? (typeof dashboard.refresh === 'string' ? dashboard.refresh : '');
  const { tick, push } = useClock(refresh);
  // A relative range moves on with every refresh.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const range = useMemo(() => resolveRange(rawFrom, rawTo, timeZone), [rawFrom, rawTo, timeZone, tick]);

  const { variables, ready } = useVariables(dashboard, url.variables, range, sources, tick);
  const scope = useMemo<DashboardScope>(() => ({ variables, range, dashboard }), [variables, range, dashboard]);
  const variableKey = useMemo(() => JSON.stringify([...variables.values()].map((v) => [v.name, v.value, isAll(v) && !v.allValue ? v.options : null])), [variables]);
  const scopeKey = `${rawFrom} ${rawTo} ${variableKey}`;

  const queries = useMemo(() => (dashboard.annotations?.list ?? []).filter(usable), [dashboard]);
  const [enabled, setEnabled] = useState<ReadonlySet<string>>(() => new Set(queries.filter((q) => q.enable !== false).map((q) => q.name)));
  const toggleAnnotation = useCallback((name: string) => {
    setEnabled((now) => {
      const next = new Set(now);
      if (!next.delete(name)) {
        next.add(name);
      }
      return next;
    });
  }, []);
  const active = queries.filter((query) => enabled.has(query.name));
  const annotations = useAnnotations(active, ready ? scope : undefined, sources, theme, `${scopeKey} ${[...enabled].join()}`, tick);

  const eventBus = useMemo(() => new EventBusSrv(), []);
  const onZoom = useCallback((from: number, to: number) => change({ from: String(Math.round(from)), to: String(Math.round(to)) }), [change]);
  const onView = useCallback((panel: number | null) => change({ viewPanel: panel === null ? null : String(panel) }), [change]);
  const shared = useMemo<DashboardShared>(
    () => ({
      scope,
      scopeKey,
      sources,
      tick,
      timeZone,
      annotations: annotations.events,
      eventBus,
      graphTooltip: dashboard.graphTooltip ?? 0,
      onZoom,
      onView,
      viewed: url.viewPanel,
    }),
    [scope, scopeKey, sources, tick, timeZone, annotations.events, eventBus, dashboard, onZoom, onView, url.viewPanel]
  );

  const { data: alerts } = useAlerts();
  const run = variables.get(RUN_VARIABLE);
  const firing = firingFor(alerts?.alerts ?? [], !run || isAll(run) ? 'all' : toList(run.value));

  return (
    <Page
      title={dashboard.title}
      toolbar={
        <>
          <DashboardLinks links={dashboard.links ?? []} scope={scope} />
          <TimeControls
            range={range}
            timeZone={timeZone}
            refresh={refresh}
            onRange={(from, to) => change({ from: rawToText(from), to: rawToText(to) })}
            onRefresh={(interval) => change({ refresh: interval })}
            onNow={push}
          />
        </>
      }
    >
      <div className={styles.controls} data-testid="controls" data-range={rangeUtil.describeTimeRange(range.raw)}>
        <VariableBar variables={variables} onPick={(name, values) => change({ variables: { [name]: values } })} />
        <AnnotationToggles queries={queries} enabled={enabled} errors={annotations.errors} onToggle={toggleAnnotation} />
      </div>
      <AlertBanner alerts={firing} />
      {ready ? (
        <DashboardContext.Provider value={shared}>
          <PanelGrid panels={dashboard.panels} />
        </DashboardContext.Provider>
      ) : (
        <LoadingPlaceholder text="Resolving variables…" />
      )}
    </Page>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  controls: css({ display: 'flex', flexWrap: 'wrap', gap: theme.spacing(1, 2), marginBottom: theme.spacing(1), '&:empty': { display: 'none' } }),
});
