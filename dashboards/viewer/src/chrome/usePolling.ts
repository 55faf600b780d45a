// SPDX-License-Identifier: Apache-2.0
// Asks again and again while the page is on the screen, one request at a time: in goes a loader, out come its newest answer and error.
import { useEffect, useRef, useState } from 'react';

export interface Polled<T> {
  data?: T;
  error?: string;
}

export function usePolling<T>(load: (signal: AbortSignal) => Promise<T>, everyMs: number): Polled<T> {
  const [state, setState] = useState<Polled<T>>({});
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stopped = false;
    const ask = async () => {
      if (!document.hidden) {
        try {
          const data = await latest.current(controller.signal);
          if (!stopped) {
            setState({ data });
          }
        } catch (error) {
          if (!stopped) {
            setState((previous) => ({ data: previous.data, error: error instanceof Error ? error.message : String(error) }));
          }
        }
      }
      if (!stopped) {
        timer = setTimeout(() => void ask(), everyMs);
      }
    };
    void ask();
    return () => {
      stopped = true;
      controller.abort();
      clearTimeout(timer);
    };
  }, [everyMs]);
  return state;
}
