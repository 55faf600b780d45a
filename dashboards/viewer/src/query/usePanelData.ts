// SPDX-License-Identifier: Apache-2.0
// Keeps one panel's data fresh: in go the query and a refresh counter, out comes its state. One request set in flight per panel:
// a refresh that comes while one runs is skipped, a change of what is asked cancels it.
import { useEffect, useRef, useState } from 'react';

import { isAbort } from '../api/http';
import type { PanelQuery, PanelResult } from './run';
import { runPanel } from './run';

export interface PanelData {
  result?: PanelResult;
  /** A failure of the panel as a whole; failed queries stand in result.errors. */
  error?: string;
  loading: boolean;
  /** What is shown answers an earlier question (another window, other variables). */
  stale?: boolean;
}

export interface Ask {
  query: PanelQuery;
  /** Identity of what is asked; a new one cancels the request that runs. */
  key: string;
  /** Counts refreshes. */
  tick: number;
  enabled: boolean;
  /** Off the screen, a panel answers a new question but skips refreshes. */
  visible: boolean;
}

export function usePanelData({ query, key, tick, enabled, visible }: Ask): PanelData {
  const [data, setData] = useState<PanelData & { key?: string }>({ loading: true });
  const running = useRef<{ key: string; controller: AbortController } | null>(null);
  const answered = useRef<string | undefined>(undefined);

  useEffect(() => {
    if (!enabled || running.current?.key === key || (!visible && answered.current === key)) {
      return;
    }
    running.current?.controller.abort();
    const mine = { key, controller: new AbortController() };
    running.current = mine;
    setData((previous) => ({ ...previous, loading: true }));
    const finish = (next: PanelData) => {
      if (running.current === mine) {
        running.current = null;
        answered.current = key;
        setData({ ...next, key });
      }
    };
    runPanel(query, mine.controller.signal).then(
      (result) => finish({ result, loading: false }),
      (error: unknown) => {
        if (!isAbort(error)) {
          finish({ error: error instanceof Error ? error.message : String(error), loading: false });
        }
      }
    );
    // `query` is described by `key` and `tick`; depending on its identity would restart on every render.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, tick, enabled, visible]);

  useEffect(
    () => () => {
      running.current?.controller.abort();
      running.current = null;
    },
    []
  );
  return { ...data, stale: data.key !== undefined && data.key !== key };
}
