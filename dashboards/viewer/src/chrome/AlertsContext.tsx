// SPDX-License-Identifier: Apache-2.0
// One poll of the alert list for the whole page.
import type { ReactNode } from 'react';
import { createContext, useContext } from 'react';

import type { AlertList } from '../api/server';
import { listAlerts } from '../api/server';
import type { Polled } from './usePolling';
import { usePolling } from './usePolling';

const EVERY_MS = 2000;
const AlertsContext = createContext<Polled<AlertList>>({});

export function AlertsProvider({ children }: { children: ReactNode }) {
  const polled = usePolling(listAlerts, EVERY_MS);
  return <AlertsContext.Provider value={polled}>{children}</AlertsContext.Provider>;
}

export const useAlerts = () => useContext(AlertsContext);
