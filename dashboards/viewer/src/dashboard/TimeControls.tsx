// SPDX-License-Identifier: Apache-2.0
// Time range picker and refresh picker: in go the range and the interval, out go changes.
import type { TimeRange, TimeZone } from '@grafana/data';
import { dateTime } from '@grafana/data';
import { RefreshPicker, TimeRangePicker } from '@grafana/ui';

export const REFRESH_INTERVALS = ['1s', '2s', '5s', '10s', '30s', '1m'];

interface Props {
  range: TimeRange;
  timeZone: TimeZone;
  refresh: string;
  onRange: (from: TimeRange['raw']['from'], to: TimeRange['raw']['to']) => void;
  onRefresh: (interval: string) => void;
  onNow: () => void;
}

export function TimeControls({ range, timeZone, refresh, onRange, onRefresh, onNow }: Props) {
  const from = range.from.valueOf();
  const to = range.to.valueOf();
  const span = to - from;
  const set = (a: number, b: number) => onRange(dateTime(a), dateTime(b));
  return (
    <>
      <TimeRangePicker
        value={range}
        timeZone={timeZone}
        isOnCanvas
        onChange={(picked) => onRange(picked.raw.from, picked.raw.to)}
        onChangeTimeZone={() => undefined}
        onMoveBackward={() => set(from - span / 2, to - span / 2)}
        onMoveForward={() => set(from + span / 2, to + span / 2)}
        onZoom={() => set(from - span / 2, to + span / 2)}
      />
      <RefreshPicker value={refresh} intervals={REFRESH_INTERVALS} isOnCanvas onIntervalChanged={onRefresh} onRefresh={onNow} tooltip="Refresh now" />
    </>
  );
}
