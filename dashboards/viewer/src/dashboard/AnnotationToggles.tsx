// SPDX-License-Identifier: Apache-2.0
// One switch per annotation query.
import { InlineSwitch, Tooltip } from '@grafana/ui';

import type { AnnotationQuery } from './model';

interface Props {
  queries: AnnotationQuery[];
  enabled: ReadonlySet<string>;
  errors: Record<string, string>;
  onToggle: (name: string) => void;
}

export function AnnotationToggles({ queries, enabled, errors, onToggle }: Props) {
  return (
    <>
      {queries
        .filter((query) => !query.hide)
        .map((query) => {
          const toggle = (
            <div key={query.name} data-testid={`annotation-toggle-${query.name}`} data-error={errors[query.name]}>
              <InlineSwitch
                id={`annotation-${query.name}`}
                label={query.name}
                showLabel
                transparent={false}
                value={enabled.has(query.name)}
                invalid={Boolean(errors[query.name])}
                onChange={() => onToggle(query.name)}
              />
            </div>
          );
          return errors[query.name] ? (
            <Tooltip key={query.name} content={errors[query.name]} theme="error">
              {toggle}
            </Tooltip>
          ) : (
            toggle
          );
        })}
    </>
  );
}
