// SPDX-License-Identifier: Apache-2.0
// Loads something once per key: in go a key and a loader, out come the answer or its error.
import { useEffect, useState } from 'react';

export interface Loaded<T> {
  data?: T;
  error?: string;
}

export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T> & { key?: string }>({});
  useEffect(() => {
    const controller = new AbortController();
    load(controller.signal).then(
      (data) => !controller.signal.aborted && setState({ key, data }),
      (error: unknown) => !controller.signal.aborted && setState({ key, error: error instanceof Error ? error.message : String(error) })
    );
    return () => controller.abort();
    // The loader is described by the key.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key]);
  return state.key === key ? state : {};
}
