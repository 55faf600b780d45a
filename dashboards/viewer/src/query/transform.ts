// SPDX-License-Identifier: Apache-2.0
// Panel transformations: frames in, frames out, with the transformers of @grafana/data and the one that it lacks.
import type { DataFrame, DataTransformerConfig, TransformerRegistryItem } from '@grafana/data';
import { standardTransformers, standardTransformersRegistry, transformDataFrame } from '@grafana/data';
import { firstValueFrom } from 'rxjs';

import type { Lookup } from './interpolate';
import { interpolate } from './interpolate';
import { partitionByValues } from './partition';

/** @grafana/data ships the operators but leaves the registry empty: the host application fills it, once. */
export function registerTransformers(): void {
  standardTransformersRegistry.setInit(() => {
    // The package lists two ids twice and the registry refuses duplicates.
    const byId = new Map(Object.values(standardTransformers).map((info) => [info.id, info]));
    return [...byId.values(), partitionByValues].map(
      (info): TransformerRegistryItem => ({
        id: info.id,
        aliasIds: info.aliasIds,
        name: info.name,
        transformation: () => Promise.resolve(info as never),
        editor: () => null,
        imageDark: '',
        imageLight: '',
      })
    );
  });
}

export class UnknownTransformation extends Error {}

export async function transform(configs: DataTransformerConfig[] | undefined, frames: DataFrame[], lookup: Lookup): Promise<DataFrame[]> {
  const active = (configs ?? []).filter((config) => !config.disabled);
  if (active.length === 0) {
    return frames;
  }
  const unknown = active.find((config) => !standardTransformersRegistry.getIfExists(config.id));
  if (unknown) {
    throw new UnknownTransformation(`The viewer does not know the transformation "${unknown.id}". Grafana may.`);
  }
  return firstValueFrom(
    transformDataFrame(active, frames, { interpolate: (text: string) => interpolate(text, lookup, 'text') })
  );
}
