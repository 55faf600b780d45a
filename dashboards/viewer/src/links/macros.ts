// SPDX-License-Identifier: Apache-2.0
// The macros of data links (${__value.raw}, ${__data.fields.x}, ${__field.labels.x}, ${__series.name}): in goes the cell that
// was clicked, out comes a Lookup. Grafana keeps these in its application, so the host supplies them.
import type { DataFrame, DisplayValue, Field } from '@grafana/data';
import { formattedValueToString, getFieldDisplayName } from '@grafana/data';

import type { Lookup, VariableValue } from '../query/interpolate';

export interface CellContext {
  frame: DataFrame;
  field: Field;
  frames?: DataFrame[];
  rowIndex?: number;
  calculatedValue?: DisplayValue;
}

export function macroLookup(cell: CellContext, outer: Lookup): Lookup {
  return (name, path) => resolve(cell, name, path) ?? outer(name, path);
}

function resolve(cell: CellContext, name: string, path: string | undefined): VariableValue | undefined {
  switch (name) {
    case '__value':
      return wrap(valueMacro(cell, path));
    case '__data':
      return wrap(dataMacro(cell, path));
    case '__field':
      return wrap(fieldMacro(cell, path));
    case '__series':
      return path === 'name' ? wrap(cell.frame.name ?? getFieldDisplayName(cell.field, cell.frame, cell.frames)) : undefined;
    default:
      return undefined;
  }
}

const wrap = (value: unknown): VariableValue | undefined =>
  value === undefined || value === null ? undefined : { value: String(value) };

function valueMacro({ field, rowIndex, calculatedValue }: CellContext, path = 'raw'): unknown {
  const raw = rowIndex === undefined ? undefined : field.values[rowIndex];
  const shown = () => calculatedValue ?? field.display?.(raw);
  switch (path) {
    case 'raw':
      return rowIndex === undefined ? calculatedValue?.numeric : raw;
    case 'numeric':
      return shown()?.numeric;
    case 'text': {
      const display = shown();
      return display ? formattedValueToString(display) : raw;
    }
    case 'time':
      return undefined;
    default:
      return undefined;
  }
}

/** "fields.step", "fields[0]" or 'fields["check point"]'; fields are found by name, shown name or label. */
function dataMacro(cell: CellContext, path = ''): unknown {
  const match = /^fields(?:\.(.+)|\[["']?([^"'\]]+)["']?\])$/.exec(path);
  if (!match) {
    return undefined;
  }
  const wanted = match[1] ?? match[2];
  const { frame, frames, rowIndex } = cell;
  const field =
    frame.fields.find((f) => f.name === wanted) ??
    frame.fields.find((f) => getFieldDisplayName(f, frame, frames) === wanted) ??
    (/^\d+$/.test(wanted) ? frame.fields[Number(wanted)] : undefined);
  if (field) {
    return rowIndex === undefined ? cell.calculatedValue?.numeric : field.values[rowIndex];
  }
  return cell.field.labels?.[wanted];
}

function fieldMacro({ frame, field, frames }: CellContext, path = 'name'): unknown {
  if (path === 'name') {
    return field.name;
  }
  if (path === 'displayName') {
    return getFieldDisplayName(field, frame, frames);
  }
  const label = /^labels(?:\.(.+)|\[["']?([^"'\]]+)["']?\])$/.exec(path);
  return label ? field.labels?.[label[1] ?? label[2]] : undefined;
}
