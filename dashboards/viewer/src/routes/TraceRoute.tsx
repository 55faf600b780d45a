// SPDX-License-Identifier: Apache-2.0
// /trace/:traceId – one step of the training on all ranks; and /explore, where dashboards written for Grafana link to.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { dateTimeFormat } from '@grafana/data';
import { Alert, LoadingPlaceholder, useStyles2 } from '@grafana/ui';
import { Redirect, useSearch } from 'wouter';

import { getTrace } from '../api/jaeger';
import { Page } from '../chrome/Page';
import { useLoaded } from '../chrome/useLoaded';
import { buildWaterfall, durationLabel } from '../trace/model';
import { WaterfallView } from '../trace/WaterfallView';

const TRACES_SOURCE = 'traces';

export function TraceRoute({ traceId }: { traceId: string }) {
  const styles = useStyles2(getStyles);
  const { data, error } = useLoaded(traceId, (signal) => getTrace(TRACES_SOURCE, traceId, signal));
  const waterfall = data && buildWaterfall(data);
  return (
    <Page title={`Trace ${traceId}`}>
      {error && <Alert severity="error" title="The trace cannot be shown">{error}</Alert>}
      {!data && !error && <LoadingPlaceholder text="Loading the trace…" />}
      {waterfall && (
        <>
          <p className={styles.facts}>
            {dateTimeFormat(waterfall.start / 1000)} · {durationLabel(waterfall.duration)} · {waterfall.spans} spans · {waterfall.groups.length} ranks or processes
          </p>
          <WaterfallView waterfall={waterfall} />
        </>
      )}
    </Page>
  );
}

/** The trace id in a Grafana Explore address (panes=... or left=...), if it names one. */
export function traceIdOf(search: string): string | undefined {
  const params = new URLSearchParams(search);
  const text = params.get('panes') ?? params.get('left') ?? '';
  return /"query"\s*:\s*"([0-9a-fA-F]{16,32})"/.exec(text)?.[1];
}

export function ExploreRoute() {
  const traceId = traceIdOf(useSearch());
  return traceId ? (
    <Redirect to={`/trace/${traceId}`} replace />
  ) : (
    <Page title="Explore">
      <Alert severity="info" title="Explore is a part of Grafana">
        The viewer shows dashboards, alerts, runbooks and traces. For free queries, open Grafana or the metrics store’s own page.
      </Alert>
    </Page>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({ facts: css({ color: theme.colors.text.secondary }) });
