// SPDX-License-Identifier: Apache-2.0
// Field configuration: frames and a panel's fieldConfig in, frames with displays, colours and links out. Without these
// registries applyFieldOverrides silently drops units, colours and links.
import type { DataFrame, FieldConfigPropertyItem, FieldConfigSource, GrafanaTheme2, LinkModel, TimeZone } from '@grafana/data';
import {
  applyFieldOverrides,
  FieldConfigOptionsRegistry,
  identityOverrideProcessor,
  standardFieldConfigEditorRegistry,
  ThresholdsMode,
} from '@grafana/data';

import type { Panel } from '../dashboard/model';
import { buildHref } from '../links/href';
import { macroLookup } from '../links/macros';
import type { Lookup } from '../query/interpolate';
import { interpolate } from '../query/interpolate';

const STANDARD = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'thresholds', 'mappings', 'links', 'color', 'filterable', 'fieldMinMax', 'description', 'actions'];

function item(path: string, isCustom: boolean): FieldConfigPropertyItem {
  return {
    id: isCustom ? `custom.${path}` : path,
    path,
    name: path,
    isCustom,
    editor: () => null,
    override: () => null,
    process: identityOverrideProcessor,
    settings: {},
    shouldApply: () => true,
  } as unknown as FieldConfigPropertyItem;
}

export function registerFieldConfig(): void {
  standardFieldConfigEditorRegistry.setInit(() => STANDARD.map((id) => item(id, false)) as never);
}

/** Custom options differ by panel type, so the registry is made of those that the panel itself uses. */
function registryOf(panel: Panel): FieldConfigOptionsRegistry {
  const registry = new FieldConfigOptionsRegistry();
  STANDARD.forEach((id) => registry.register(item(id, false)));
  const custom = new Set(Object.keys((panel.fieldConfig?.defaults.custom as object | undefined) ?? {}));
  for (const override of panel.fieldConfig?.overrides ?? []) {
    for (const property of override.properties) {
      if (property.id.startsWith('custom.')) {
        custom.add(property.id.slice('custom.'.length));
      }
    }
  }
  custom.forEach((path) => registry.register(item(path, true)));
  return registry;
}

export interface FieldContext {
  theme: GrafanaTheme2;
  timeZone: TimeZone;
  lookup: Lookup;
  urlMacros: Record<string, string>;
}

const BY_THRESHOLD = new Set(['stat', 'gauge', 'bargauge', 'state-timeline']);
const BY_PALETTE = new Set(['timeseries', 'trend', 'xychart']);

/** What Grafana's panel plugins fill in where the JSON is silent. */
function withDefaults(panel: Panel): FieldConfigSource {
  const config = structuredClone(panel.fieldConfig ?? { defaults: {}, overrides: [] });
  const { defaults } = config;
  if (BY_THRESHOLD.has(panel.type)) {
    defaults.color ??= { mode: 'thresholds' };
    defaults.thresholds ??= { mode: ThresholdsMode.Absolute, steps: [{ color: 'green', value: -Infinity }] };
  } else if (BY_PALETTE.has(panel.type)) {
    defaults.color ??= { mode: 'palette-classic' };
  }
  for (const step of defaults.thresholds?.steps ?? []) {
    step.value ??= -Infinity;
  }
  return config;
}

export function withFieldConfig(frames: DataFrame[], panel: Panel, context: FieldContext): DataFrame[] {
  const configured = applyFieldOverrides({
    data: frames,
    // Overrides write into what they are given; the dashboard stays as it was loaded.
    fieldConfig: withDefaults(panel),
    fieldConfigRegistry: registryOf(panel),
    replaceVariables: (text) => interpolate(text, context.lookup, 'text'),
    theme: context.theme,
    timeZone: context.timeZone,
  });
  for (const frame of configured) {
    for (const field of frame.fields) {
      field.getLinks = (config) =>
        (field.config.links ?? []).flatMap((link): LinkModel[] => {
          const cell = { frame, field, frames: configured, rowIndex: config.valueRowIndex, calculatedValue: config.calculatedValue };
          const lookup = macroLookup(cell, context.lookup);
          const href = buildHref(link.url ?? '', lookup, context.urlMacros);
          return href
            ? [{ href, title: interpolate(link.title || 'Open', lookup, 'text'), target: link.targetBlank ? '_blank' : undefined, origin: field } as LinkModel]
            : [];
        }) as never;
    }
  }
  return configured;
}
