// SPDX-License-Identifier: Apache-2.0
// Dark unless the address says theme=light; system fonts only, nothing is fetched.
import type { GrafanaTheme2 } from '@grafana/data';
import { createTheme } from '@grafana/data';

const SANS = "Inter, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif";
const MONO = "'Roboto Mono', 'DejaVu Sans Mono', Consolas, monospace";

export function makeTheme(search: string): GrafanaTheme2 {
  const mode = new URLSearchParams(search).get('theme') === 'light' ? 'light' : 'dark';
  return createTheme({ colors: { mode }, typography: { fontFamily: SANS, fontFamilyMonospace: MONO } });
}
