// SPDX-License-Identifier: Apache-2.0
// Markdown, HTML or plain text with variables; values of variables are always plain text.
import { escapeMarkdown, renderMarkdown, sanitizeHtml } from '../chrome/markdown';
import { Html } from '../chrome/Markdown';
import type { Lookup } from '../query/interpolate';
import { interpolate } from '../query/interpolate';
import type { PanelProps } from './props';
import { option } from './props';

const escaped =
  (lookup: Lookup): Lookup =>
  (name, path) => {
    const found = lookup(name, path);
    if (!found) {
      return undefined;
    }
    const escape = (v: string | string[] | undefined) => (Array.isArray(v) ? v.map(escapeMarkdown) : v === undefined ? v : escapeMarkdown(v));
    return { ...found, value: found.value === '$__all' ? found.value : (escape(found.value) ?? ''), text: escape(found.text) };
  };

export function TextPanel({ panel, lookup, width, height }: PanelProps) {
  const mode = option<string>(panel, 'mode', 'markdown');
  const content = option(panel, 'content', '');
  const style = { width, height, overflow: 'auto' } as const;
  if (mode === 'code') {
    return <pre style={style}>{interpolate(content, lookup, 'text')}</pre>;
  }
  const text = interpolate(content, escaped(lookup), 'text');
  return (
    <div style={style}>
      <Html html={mode === 'html' ? sanitizeHtml(text) : renderMarkdown(text)} />
    </div>
  );
}
