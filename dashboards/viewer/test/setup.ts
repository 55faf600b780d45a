// SPDX-License-Identifier: Apache-2.0
// jsdom lacks what uPlot asks for when it loads.
window.matchMedia = (query: string) =>
  ({ matches: false, media: query, addEventListener: () => undefined, removeEventListener: () => undefined }) as unknown as MediaQueryList;
