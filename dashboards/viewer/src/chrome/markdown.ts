// SPDX-License-Identifier: Apache-2.0
// Markdown -> HTML that is safe to insert: scripts, styles, forms, frames and event handlers are taken out.
import DOMPurify from 'dompurify';
import { marked } from 'marked';

const FORBIDDEN_TAGS = ['style', 'form', 'input', 'button', 'textarea', 'select', 'iframe', 'object', 'embed', 'base', 'meta', 'link', 'svg', 'math'];

export function sanitizeHtml(html: string): string {
  return DOMPurify.sanitize(html, { FORBID_TAGS: FORBIDDEN_TAGS, FORBID_ATTR: ['style', 'id', 'name'], ALLOW_DATA_ATTR: false });
}

export function renderMarkdown(text: string): string {
  return sanitizeHtml(marked.parse(text, { async: false, gfm: true }));
}

/** A value that goes into markdown as plain text: nothing in it is a link, a tag or emphasis. */
export function escapeMarkdown(text: string): string {
  return text.replace(/[\\`*_{}[\]()#+\-.!|<>&~:/]/g, (c) => `&#${c.charCodeAt(0)};`);
}
