// SPDX-License-Identifier: Apache-2.0
// Places rows and panels on Grafana's grid of 24 columns.
import { useEffect, useMemo, useRef, useState } from 'react';

import { interpolate } from '../query/interpolate';
import { makeLookup } from '../query/scope';
import { useDashboard } from './DashboardContext';
import { boxOf, expandRepeats, placePanels, totalHeight } from './layout';
import type { Panel } from './model';
import { PanelFrame } from './PanelFrame';
import { RowHeader } from './RowHeader';

const VIEWED_MARGIN = 150;

export function PanelGrid({ panels }: { panels: Panel[] }) {
  const { scope, viewed } = useDashboard();
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [toggled, setToggled] = useState<ReadonlyMap<number, boolean>>(new Map());

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);

  const placed = useMemo(() => placePanels(expandRepeats(panels, scope.variables), toggled), [panels, scope.variables, toggled]);
  const alone = viewed === undefined ? undefined : [...panels, ...panels.flatMap((p) => p.panels ?? [])].find((p) => p.id === viewed);
  const lookup = makeLookup(scope);
  const height = alone ? window.innerHeight - VIEWED_MARGIN : totalHeight(placed);

  return (
    <div ref={element} style={{ position: 'relative', height }}>
      {width > 0 && alone && <PanelFrame key={`viewed-${alone.id}`} panel={alone} box={{ left: 0, top: 0, width, height }} />}
      {width > 0 &&
        !alone &&
        placed.map((panel) =>
          panel.type === 'row' ? (
            <RowHeader
              key={`row-${panel.id}`}
              panel={panel}
              title={interpolate(panel.title ?? '', lookup, 'text')}
              box={boxOf(panel, width)}
              onToggle={() => setToggled((now) => new Map(now).set(panel.id, !panel.collapsed))}
            />
          ) : (
            <PanelFrame key={panel.key ?? panel.id} panel={panel} box={boxOf(panel, width)} />
          )
        )}
    </div>
  );
}
