// SPDX-License-Identifier: Apache-2.0
// The dashboard's own links: single addresses, or all dashboards with a tag, with time and variables taken along when asked.
import { Icon, LinkButton } from '@grafana/ui';

import type { DashboardSummary } from '../api/server';
import { listDashboards } from '../api/server';
import { useLoaded } from '../chrome/useLoaded';
import { buildHref } from '../links/href';
import { interpolate } from '../query/interpolate';
import type { DashboardScope } from '../query/scope';
import { makeLookup, timeParams, urlMacros, variableParams } from '../query/scope';
import type { Link } from './model';

export interface ResolvedLink {
  title: string;
  href: string;
  targetBlank: boolean;
}

export function resolveLinks(links: Link[], scope: DashboardScope, dashboards: DashboardSummary[]): ResolvedLink[] {
  const lookup = makeLookup(scope);
  return links.flatMap((link) => {
    const extra = [link.keepTime && timeParams(scope.range), link.includeVars && variableParams(scope.variables)].filter(Boolean).join('&');
    const withExtra = (href: string) => (extra ? `${href}${href.includes('?') ? '&' : '?'}${extra}` : href);
    if (link.type === 'dashboards') {
      const wanted = link.tags ?? [];
      return dashboards
        .filter((d) => d.uid !== scope.dashboard.uid && wanted.every((tag) => d.tags?.includes(tag)))
        .map((d) => ({ title: d.title, href: withExtra(`/d/${encodeURIComponent(d.uid)}`), targetBlank: Boolean(link.targetBlank) }));
    }
    const href = buildHref(link.url ?? '', lookup, urlMacros(scope));
    return href ? [{ title: interpolate(link.title || href, lookup, 'text'), href: withExtra(href), targetBlank: Boolean(link.targetBlank) }] : [];
  });
}

export function DashboardLinks({ links, scope }: { links: Link[]; scope: DashboardScope }) {
  const tagged = links.some((link) => link.type === 'dashboards');
  const { data } = useLoaded(tagged ? 'dashboards' : 'none', (signal) => (tagged ? listDashboards(signal) : Promise.resolve([])));
  return (
    <>
      {resolveLinks(links, scope, data ?? []).map((link) => (
        <LinkButton key={link.href} href={link.href} target={link.targetBlank ? '_blank' : undefined} rel="noopener noreferrer" variant="secondary" size="sm" fill="outline" data-testid="dashboard-link">
          {link.title} {link.targetBlank && <Icon name="external-link-alt" size="xs" />}
        </LinkButton>
      ))}
    </>
  );
}
