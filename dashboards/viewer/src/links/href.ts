// SPDX-License-Identifier: Apache-2.0
// Addresses of links: in goes a template and what it may name, out comes an address that is safe to put in href, or undefined.
// Stricter than Grafana: a value is percent-encoded wherever it is only a part of the address, so a hostile label can
// add neither parameters nor path segments nor a scheme.
import type { Lookup } from '../query/interpolate';
import { interpolate } from '../query/interpolate';

const SAFE_SCHEMES = new Set(['http:', 'https:', 'mailto:']);
const WHOLE = /^\$\{[^}]+\}$|^\$\w+$/;

export function safeHref(href: string): string | undefined {
  // Control characters and blanks may hide a scheme ("java\nscript:").
  // eslint-disable-next-line no-control-regex
  const text = href.replace(/[\u0000-\u0020\u007f-\u009f]/g, (c) => (c === ' ' ? c : '')).trim().replaceAll(' ', '%20');
  if (!text) {
    return undefined;
  }
  if (/^[\\/]{2}|^\/\\/.test(text)) {
    return undefined;
  }
  try {
    const url = new URL(text, 'http://viewer.invalid/');
    return SAFE_SCHEMES.has(url.protocol) ? text : undefined;
  } catch {
    return undefined;
  }
}

/** Address parameters that are already whole ("var-run=a&var-run=b"); they are not encoded again. */
const WHOLE_PARAMETERS = ['__url_time_range', '__all_variables'];

export function buildHref(template: string, lookup: Lookup, parameters: Record<string, string> = {}): string | undefined {
  const trimmed = template.trim();
  if (WHOLE.test(trimmed)) {
    return safeHref(interpolate(trimmed, lookup, 'text'));
  }
  let prepared = trimmed;
  for (const name of WHOLE_PARAMETERS) {
    const value = parameters[name] ?? '';
    prepared = prepared.replaceAll(`\${${name}}`, () => value).replaceAll(`$${name}`, () => value);
  }
  return safeHref(interpolate(prepared, lookup, 'url'));
}
