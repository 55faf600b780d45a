// SPDX-License-Identifier: Apache-2.0
// The refresh counter of a dashboard: in goes the interval ("5s", "" for off), out come a growing number and a way to push it on.
import { useCallback, useEffect, useState } from 'react';

import { parseDuration } from '../time/range';

const SHORTEST_MS = 1000;

export function useClock(refresh: string): { tick: number; push: () => void } {
  const [tick, setTick] = useState(0);
  const push = useCallback(() => setTick((n) => n + 1), []);
  const every = parseDuration(refresh);
  useEffect(() => {
    if (!every) {
      return;
    }
    // A page nobody sees asks for nothing; it catches up at once when it is seen again.
    const timer = setInterval(() => !document.hidden && push(), Math.max(SHORTEST_MS, every));
    const seen = () => !document.hidden && push();
    document.addEventListener('visibilitychange', seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [every, push]);
  return { tick, push };
}
