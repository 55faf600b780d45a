// SPDX-License-Identifier: Apache-2.0
// One panel: asks for its data, frames it, and says its state in data-* attributes (the browser tests read those).
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { LoadingState } from '@grafana/data';
import { Icon, IconButton, PanelChrome, PanelContextProvider, Tooltip, useStyles2, useTheme2 } from '@grafana/ui';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';

import { withFieldConfig } from '../fields/registry';
import { buildHref } from '../links/href';
import { PANELS } from '../panels/registry';
import { interpolate } from '../query/interpolate';
import { makeLookup, urlMacros } from '../query/scope';
import { usePanelData } from '../query/usePanelData';
import { useDashboard } from './DashboardContext';
import { hideSeries, seriesNames, toggleSeries } from './hiddenSeries';
import type { Box } from './layout';
import type { Panel } from './model';
import { PanelBoundary } from './PanelBoundary';
import { panelState } from './panelState';

const PADDING = 16;
/** Data points asked for change only when the width changes by this much, so that resizing does not ask again and again. */
const WIDTH_STEP = 50;

export function PanelFrame({ panel, box }: { panel: Panel; box: Box }) {
  const styles = useStyles2(getStyles);
  const theme = useTheme2();
  const shared = useDashboard();
  const { scope, sources, timeZone } = shared;
  const element = useRef<HTMLDivElement>(null);
  const near = useNearViewport(element);
  const [crash, setCrash] = useState<string>();
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [capped, setCapped] = useState<{ shown: number; total: number }>();
  const Component = PANELS[panel.type];

  const width = Math.max(WIDTH_STEP, Math.round((box.width - PADDING) / WIDTH_STEP) * WIDTH_STEP);
  const key = `${shared.scopeKey} ${width} ${panel.key ?? panel.id}`;
  const asks = Boolean(Component) && panel.type !== 'text';
  const data = usePanelData({ query: { panel, scope, sources, width }, key, tick: shared.tick, enabled: asks, visible: near });
  const status = panelState(panel, data, Boolean(Component));
  const state = crash && status.state === 'ok' ? { state: 'error' as const, error: crash } : data.stale && status.state !== 'error' ? { state: 'loading' as const } : status;

  const lookup = useMemo(() => makeLookup(scope, urlMacros(scope), panel.scopedVars), [scope, panel.scopedVars]);
  const frames = useMemo(() => {
    const raw = data.result?.frames ?? [];
    const context = { theme, timeZone, lookup, urlMacros: urlMacros(scope) };
    // A heatmap reads one display for all its rows; configuring ten thousand fields would cost a second.
    return panel.type === 'heatmap' ? [...withFieldConfig(raw.slice(0, 1), panel, context), ...raw.slice(1)] : withFieldConfig(raw, panel, context);
    // Links read the scope as of the data that they belong to.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [data.result, panel, theme, timeZone]);
  const visible = useMemo(() => hideSeries(frames, hidden), [frames, hidden]);

  const context = useMemo(
    () => ({
      eventBus: shared.eventBus,
      eventsScope: 'dashboard',
      sync: () => shared.graphTooltip,
      onToggleSeriesVisibility: (label: string, mode: unknown) =>
        setHidden((now) => toggleSeries(now, label, panel.type === 'xychart' ? frames.map((f) => f.name ?? '') : seriesNames(frames), mode !== 'toggle' && mode !== 'toggleSelection')),
    }),
    [shared.eventBus, shared.graphTooltip, frames, panel.type]
  );
  const onCapped = useCallback((shown: number, total: number) => setCapped({ shown, total }), []);
  useEffect(() => setCapped(undefined), [key]);

  const title = interpolate(panel.title ?? '', lookup, 'text');
  const cut = capped ?? data.result?.capped;
  const range = data.result?.range ?? scope.range;
  return (
    <div
      ref={element}
      className={styles.frame}
      style={box}
      data-testid="panel"
      data-panel-id={panel.key ?? panel.id}
      data-panel-type={panel.type}
      data-panel-title={title}
      data-state={state.state}
      data-error={state.error}
      data-novalue={'noValue' in state && state.noValue ? 'true' : undefined}
    >
      <PanelChrome
        width={box.width}
        height={box.height}
        title={title}
        description={panel.description ? interpolate(panel.description, lookup, 'text') : undefined}
        displayMode={panel.transparent ? 'transparent' : 'default'}
        loadingState={data.loading && asks && state.state === 'loading' ? LoadingState.Loading : LoadingState.Done}
        statusMessage={state.error}
        padding={panel.type === 'table' ? 'none' : 'md'}
        titleItems={<TitleItems panel={panel} cut={cut} lookup={lookup} macros={urlMacros(scope)} />}
        actions={
          <IconButton
            name={shared.viewed === panel.id ? 'times' : 'eye'}
            size="sm"
            aria-label={shared.viewed === panel.id ? 'Back to the dashboard' : 'View this panel alone'}
            className={styles.view}
            onClick={() => shared.onView(shared.viewed === panel.id ? null : panel.id)}
          />
        }
      >
        {(innerWidth, innerHeight) => {
          if (state.state === 'error' && (crash || !Component || frames.length === 0)) {
            return <Message icon="exclamation-triangle" text={state.error ?? ''} tone="error" />;
          }
          if ('noValue' in state && state.noValue) {
            return <Message text={state.noValue} tone={panel.type === 'stat' ? 'big' : 'plain'} />;
          }
          if (state.state === 'nodata') {
            return <Message text="No data" tone="plain" />;
          }
          if (!Component || innerWidth <= 0 || innerHeight <= 0 || (asks && frames.length === 0)) {
            return null;
          }
          return (
            <PanelBoundary resetKey={data.result} onError={setCrash}>
              <PanelContextProvider value={context as never}>
                <Component
                  panel={panel}
                  frames={visible}
                  range={range}
                  timeZone={timeZone}
                  theme={theme}
                  width={innerWidth}
                  height={innerHeight}
                  annotations={shared.annotations}
                  lookup={lookup}
                  onZoom={shared.onZoom}
                  onCapped={onCapped}
                />
              </PanelContextProvider>
            </PanelBoundary>
          );
        }}
      </PanelChrome>
    </div>
  );
}

interface TitleItemsProps {
  panel: Panel;
  cut?: { shown: number; total: number };
  lookup: ReturnType<typeof makeLookup>;
  macros: Record<string, string>;
}

function TitleItems({ panel, cut, lookup, macros }: TitleItemsProps) {
  const styles = useStyles2(getStyles);
  return (
    <>
      {(panel.links ?? []).map((link, i) => {
        const href = buildHref(link.url ?? '', lookup, macros);
        return href ? (
          <Tooltip key={i} content={interpolate(link.title ?? href, lookup, 'text')}>
            <a className={styles.link} href={href} target={link.targetBlank ? '_blank' : undefined} rel="noopener noreferrer" aria-label={link.title}>
              <Icon name="external-link-alt" size="sm" />
            </a>
          </Tooltip>
        ) : null;
      })}
      {cut && (
        <span className={styles.cut} data-testid="panel-capped">
          showing {cut.shown.toLocaleString('en')} of {cut.total.toLocaleString('en')}
        </span>
      )}
    </>
  );
}

function Message({ text, tone, icon }: { text: string; tone: 'plain' | 'error' | 'big'; icon?: 'exclamation-triangle' }) {
  const styles = useStyles2(getStyles);
  return (
    <div className={tone === 'big' ? styles.big : styles.message} data-testid="panel-message">
      {icon && <Icon name={icon} className={styles.errorIcon} />}
      <span className={tone === 'error' ? styles.errorText : undefined}>{text}</span>
    </div>
  );
}

/** The first load is for all panels; refreshes are only for those on the screen or near it. */
function useNearViewport(ref: React.RefObject<HTMLElement | null>): boolean {
  const [near, setNear] = useState(true);
  useEffect(() => {
    const element = ref.current;
    if (!element) {
      return;
    }
    const observer = new IntersectionObserver(([entry]) => setNear(entry.isIntersecting), { rootMargin: '600px' });
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return near;
}

const getStyles = (theme: GrafanaTheme2) => ({
  frame: css({ position: 'absolute' }),
  link: css({ display: 'inline-flex', padding: theme.spacing(0, 0.5), color: theme.colors.text.secondary, '&:hover': { color: theme.colors.text.primary } }),
  cut: css({ fontSize: theme.typography.bodySmall.fontSize, color: theme.colors.warning.text, whiteSpace: 'nowrap', paddingLeft: theme.spacing(1) }),
  view: css({ opacity: 0, 'section:hover &, &:focus-visible': { opacity: 1 }, marginRight: theme.spacing(1) }),
  message: css({ height: '100%', display: 'flex', gap: theme.spacing(1), alignItems: 'center', justifyContent: 'center', color: theme.colors.text.secondary, overflow: 'auto' }),
  big: css({ height: '100%', display: 'flex', alignItems: 'center', justifyContent: 'center', fontSize: theme.typography.h2.fontSize, color: theme.visualization.getColorByName('green') }),
  errorIcon: css({ color: theme.colors.error.text, flex: 'none' }),
  errorText: css({ color: theme.colors.error.text, fontFamily: theme.typography.fontFamilyMonospace, fontSize: theme.typography.bodySmall.fontSize, overflowWrap: 'anywhere' }),
});
