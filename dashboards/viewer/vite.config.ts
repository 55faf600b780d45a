// SPDX-License-Identifier: Apache-2.0
// Build of the viewer: in goes src/, out comes dist/ with everything it needs offline (no CDN, no web fonts).
import { cpSync } from 'node:fs';
import { resolve } from 'node:path';

import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

const ICONS = 'node_modules/@grafana/ui/dist/public/img/icons';
const SERVER = process.env.GLIDESLOPE_SERVER ?? 'http://127.0.0.1:8700';

/** The editors of @grafana/ui (Monaco and CodeMirror) are never shown here; without this they are half of the bundle. */
function withoutEditors(): Plugin {
  const EMPTY = '\0glideslope-empty';
  return {
    name: 'without-editors',
    enforce: 'pre',
    resolveId: (source) =>
      /^(monaco-editor|@monaco-editor\/react|react-monaco-editor|slate|slate-react|slate-plain-serializer)(\/|$)/.test(source) ||
      /(Monaco\/(CodeEditor|ReactMonacoEditor)|CodeMirror\/CodeMirrorEditor)\.mjs$/.test(source)
        ? { id: EMPTY, syntheticNamedExports: 'exports' }
        : null,
    load: (id) => (id === EMPTY ? 'export const exports = new Proxy({}, { get: () => () => null }); export default exports;' : null),
  };
}

/** GlobalStyles asks for web fonts that @grafana/ui does not ship; the theme names system fonts instead. */
function withoutWebFonts(): Plugin {
  return {
    name: 'without-web-fonts',
    enforce: 'pre',
    load: (id) => (/GlobalStyles\/fonts\.mjs$/.test(id) ? 'export const getFontStyles = () => null;' : null),
  };
}

/** Icons are fetched by name at run time, so the folder travels beside the bundle; icons/ holds those the package forgot. */
function icons(): Plugin {
  return {
    name: 'grafana-icons',
    apply: 'build',
    closeBundle() {
      const target = resolve(import.meta.dirname, 'dist/public/build/img/icons');
      for (const source of [ICONS, 'icons']) {
        cpSync(resolve(import.meta.dirname, source), target, { recursive: true });
      }
    },
  };
}

export default defineConfig({
  plugins: [withoutEditors(), withoutWebFonts(), react(), icons()],
  base: '/',
  build: {
    target: 'es2022',
    sourcemap: false,
    chunkSizeWarningLimit: 8000,
    // A mark of the build for the server's cache headers: names under assets/ carry a content hash.
    assetsDir: 'assets',
  },
  server: { port: 8701, proxy: { '/api': SERVER } },
  preview: { port: 8702, proxy: { '/api': SERVER } },
  test: { environment: 'jsdom', setupFiles: ['test/setup.ts'], include: ['test/**/*.test.ts', 'test/**/*.test.tsx'], server: { deps: { inline: [/@grafana/] } } },
});
