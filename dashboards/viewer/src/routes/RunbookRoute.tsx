// SPDX-License-Identifier: Apache-2.0
// /runbooks/:name – what to do about an alert.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { Alert, LoadingPlaceholder, useStyles2 } from '@grafana/ui';

import { getRunbook } from '../api/server';
import { renderMarkdown } from '../chrome/markdown';
import { Html } from '../chrome/Markdown';
import { Page } from '../chrome/Page';
import { useLoaded } from '../chrome/useLoaded';

export function RunbookRoute({ name }: { name: string }) {
  const styles = useStyles2(getStyles);
  const { data, error } = useLoaded(name, (signal) => getRunbook(name, signal));
  return (
    <Page title={`Runbook: ${name}`}>
      {error && <Alert severity="error" title={`No runbook "${name}"`}>{error}</Alert>}
      {data === undefined && !error && <LoadingPlaceholder text="Loading the runbook…" />}
      {data !== undefined && (
        <article className={styles.paper} data-testid="runbook">
          <Html html={renderMarkdown(data)} />
        </article>
      )}
    </Page>
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  paper: css({
    maxWidth: 900,
    padding: theme.spacing(3),
    background: theme.colors.background.primary,
    border: `1px solid ${theme.colors.border.weak}`,
    borderRadius: theme.shape.radius.default,
  }),
});
