// SPDX-License-Identifier: Apache-2.0
// What hovers over a line chart: in go the aligned frame and the hovered indexes, out comes the tooltip's content.
import type { DataFrame, Field, LinkModel } from '@grafana/data';
import { FieldType, formattedValueToString } from '@grafana/data';
import type { SortOrder, TooltipDisplayMode } from '@grafana/schema';
import { getFieldDisplayItems, VizTooltipContent, VizTooltipFooter, VizTooltipHeader, VizTooltipWrapper } from '@grafana/ui';

interface Props {
  frame: DataFrame;
  dataIdxs: Array<number | null>;
  seriesIdx: number | null;
  mode: TooltipDisplayMode;
  sort: SortOrder;
  isPinned: boolean;
  dataLinks: LinkModel[];
}

export function TimeTooltip({ frame, dataIdxs, seriesIdx, mode, sort, isPinned, dataLinks }: Props) {
  const x = frame.fields[0];
  const row = dataIdxs[0] ?? dataIdxs.find((i) => i != null);
  const items = getFieldDisplayItems(frame.fields, x, dataIdxs, seriesIdx, mode, sort, isShown);
  return (
    <VizTooltipWrapper>
      <VizTooltipHeader item={{ label: x.type === FieldType.time ? '' : x.name, value: row == null ? '' : shown(x, row) }} isPinned={isPinned} />
      <VizTooltipContent items={items} isPinned={isPinned} scrollable maxHeight={260} />
      {isPinned && dataLinks.length > 0 && <VizTooltipFooter dataLinks={dataLinks} />}
    </VizTooltipWrapper>
  );
}

const isShown = (field: Field): boolean => {
  const hide = field.config.custom?.hideFrom as { viz?: boolean; tooltip?: boolean } | undefined;
  return field.type === FieldType.number && !hide?.viz && !hide?.tooltip;
};

const shown = (field: Field, row: number): string => {
  const value: unknown = field.values[row];
  return field.display ? formattedValueToString(field.display(value)) : String(value);
};
