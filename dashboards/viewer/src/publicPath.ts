// SPDX-License-Identifier: Apache-2.0
// @grafana/ui reads the folder of its icons from this global when its modules load, so this module comes first.
declare global {
  interface Window {
    __grafana_public_path__?: string;
  }
}

window.__grafana_public_path__ = '/public/';

export {};
