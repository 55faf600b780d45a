// SPDX-License-Identifier: Apache-2.0
// One trace as a waterfall, or the result of a search as a table.
import type { JaegerTrace } from '../api/jaeger';
import { buildWaterfall } from '../trace/model';
import { WaterfallView } from '../trace/WaterfallView';
import type { PanelProps } from './props';
import { TablePanel } from './table';

export function TracesPanel(props: PanelProps) {
  const trace = props.frames[0]?.meta?.custom?.trace as JaegerTrace | undefined;
  if (!trace) {
    return <TablePanel {...props} />;
  }
  return (
    <div style={{ width: props.width, height: props.height, overflow: 'auto' }}>
      <WaterfallView waterfall={buildWaterfall(trace)} />
    </div>
  );
}
