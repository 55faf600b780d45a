// SPDX-License-Identifier: Apache-2.0
import { FieldType } from '@grafana/data';
import { describe, expect, it } from 'vitest';

import { escapeMarkdown, renderMarkdown } from '../src/chrome/markdown';
import { buildHref, safeHref } from '../src/links/href';
import { macroLookup } from '../src/links/macros';
import { traceHref } from '../src/panels/logs';
import { traceIdOf } from '../src/routes/TraceRoute';

const frame = {
  name: 'series',
  length: 2,
  fields: [
    { name: 'run', type: FieldType.string, config: {}, values: ['a/b', 'x&var-y=1'] },
    { name: 'check point', type: FieldType.string, config: {}, values: ['s3://b/x', 'javascript:alert(1)'] },
    { name: 'loss', type: FieldType.number, config: {}, labels: { rank: '3' }, values: [1.5, 2.5] },
  ],
};
const at = (field: number, rowIndex: number) => macroLookup({ frame, field: frame.fields[field], frames: [frame], rowIndex }, () => undefined);

describe('addresses', () => {
  it.each(['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'java\nscript:alert(1)', ' \u0001javascript:x', 'data:text/html,x', 'vbscript:x', '//evil.example', '/\\evil.example', 'file:///etc/passwd', ''])(
    'refuses %j',
    (href) => {
      expect(safeHref(href)).toBeUndefined();
    }
  );
  it.each(['/d/x?var-run=a', 'https://a.example/b', 'http://127.0.0.1/', 'mailto:a@b.example', 'relative/path', '#top'])('keeps %s', (href) => {
    expect(safeHref(href)).toBe(href);
  });
  it('encodes every value so that it stays one part of the address', () => {
    expect(buildHref('/d/${__data.fields.run}?v=${__value.raw}', at(0, 1))).toBe('/d/x%26var-y%3D1?v=x%26var-y%3D1');
  });
  it('never lets a value choose the scheme', () => {
    expect(buildHref('${__value.raw}', at(1, 1))).toBeUndefined();
    expect(buildHref('${__value.raw}:1', at(1, 1))).toBe('javascript%3Aalert(1):1');
  });
  it('puts whole parameters in unencoded', () => {
    expect(buildHref('/d/x?${__url_time_range}', at(0, 0), { __url_time_range: 'from=a&to=b' })).toBe('/d/x?from=a&to=b');
  });
});

describe('macros', () => {
  const text = (template: string, field: number, row: number) => buildHref(`/${template}`, at(field, row));
  it.each([
    ['${__value.raw}', 2, '/2.5'],
    ['${__value.text}', 2, '/2.5'],
    ['${__field.name}', 2, '/loss'],
    ['${__field.labels.rank}', 2, '/3'],
    ['${__field.labels["rank"]}', 2, '/3'],
    ['${__series.name}', 2, '/series'],
    ['${__data.fields["check point"]}', 2, '/javascript%3Aalert(1)'],
    ['${__data.fields[0]}', 2, '/x%26var-y%3D1'],
    ['${__data.fields.rank}', 2, '/3'],
  ])('%s', (template, field, expected) => {
    expect(text(template, field, 1)).toBe(expected);
  });
});

describe('markdown', () => {
  it('takes out what could act', () => {
    const html = renderMarkdown('# T\n\n<script>x</script><img src=x onerror=alert(1)>\n\n[a](javascript:alert(1)) <iframe src=x></iframe><style>*{}</style>');
    expect(html).toContain('<h1>T</h1>');
    expect(html).not.toMatch(/script|onerror|iframe|style/);
  });
  it('keeps a value plain text', () => {
    const html = renderMarkdown(`run ${escapeMarkdown('[x](http://e) *b* <i>')}`);
    expect(html).not.toMatch(/<a|<em|<i>/);
    expect(html).toContain('[x](http');
  });
});

it('links to traces by hexadecimal ids only', () => {
  expect(traceHref({ trace_id: 'ab'.repeat(16) })).toBe(`/trace/${'ab'.repeat(16)}`);
  expect(traceHref({ trace_id: '../../x' })).toBeUndefined();
  expect(traceHref({ trace_id: '0'.repeat(32) })).toBeUndefined();
});

it('finds the trace in an address of Grafana’s Explore', () => {
  expect(traceIdOf(`?panes=${encodeURIComponent(`{"t":{"queries":[{"refId":"A","query":"${'ab'.repeat(16)}"}]}}`)}`)).toBe('ab'.repeat(16));
  expect(traceIdOf('?panes=x')).toBeUndefined();
});
