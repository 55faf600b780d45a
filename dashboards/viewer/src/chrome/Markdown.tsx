// SPDX-License-Identifier: Apache-2.0
// Shows already sanitised HTML with the look of the theme.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { useStyles2 } from '@grafana/ui';

export function Html({ html }: { html: string }) {
  const styles = useStyles2(getStyles);
  return <div className={styles.body} dangerouslySetInnerHTML={{ __html: html }} />;
}

const getStyles = (theme: GrafanaTheme2) => ({
  body: css({
    lineHeight: 1.6,
    'h1, h2, h3': { marginTop: theme.spacing(2), marginBottom: theme.spacing(1) },
    'h1:first-child, h2:first-child': { marginTop: 0 },
    a: { color: theme.colors.text.link, '&:hover': { textDecoration: 'underline' } },
    'ul, ol': { paddingLeft: theme.spacing(3), marginBottom: theme.spacing(1) },
    pre: { padding: theme.spacing(1.5), background: theme.colors.background.canvas, border: `1px solid ${theme.colors.border.weak}`, overflow: 'auto' },
    code: { fontFamily: theme.typography.fontFamilyMonospace, whiteSpace: 'pre-wrap' },
    table: { borderCollapse: 'collapse', marginBottom: theme.spacing(2) },
    'th, td': { border: `1px solid ${theme.colors.border.weak}`, padding: theme.spacing(0.5, 1), textAlign: 'left' },
    blockquote: { borderLeft: `3px solid ${theme.colors.border.strong}`, paddingLeft: theme.spacing(1.5), color: theme.colors.text.secondary },
  }),
});
