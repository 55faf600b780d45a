// SPDX-License-Identifier: Apache-2.0
// Makes a shown value open its data link, or a menu of them.
import type { FieldDisplay } from '@grafana/data';
import { DataLinksContextMenu } from '@grafana/ui';
import type { MouseEventHandler, ReactElement } from 'react';

interface Props {
  value: FieldDisplay;
  children: (onClick: MouseEventHandler<HTMLElement> | undefined, className: string | undefined) => ReactElement;
}

export function ValueLink({ value, children }: Props) {
  if (!value.hasLinks || !value.getLinks) {
    return children(undefined, undefined);
  }
  return (
    <DataLinksContextMenu links={value.getLinks}>
      {(api) => children(api.openMenu, api.targetClassName)}
    </DataLinksContextMenu>
  );
}
