// SPDX-License-Identifier: Apache-2.0
// The selectors above a dashboard: in go resolved variables, out go picks.
import { css } from '@emotion/css';
import type { GrafanaTheme2 } from '@grafana/data';
import { AutoSizeInput, Combobox, Icon, MultiCombobox, Tooltip, useStyles2 } from '@grafana/ui';

import type { Variable } from './choose';
import { normalisePick, toList } from './choose';

interface Props {
  variables: Map<string, Variable>;
  onPick: (name: string, values: string[]) => void;
}

const HIDE_LABEL = 1;
const HIDE_VARIABLE = 2;

export function VariableBar({ variables, onPick }: Props) {
  const styles = useStyles2(getStyles);
  const shown = [...variables.values()].filter((v) => v.model.hide !== HIDE_VARIABLE && v.model.type !== 'constant');
  return (
    <>
      {shown.map((variable) => (
        <div key={variable.name} className={styles.pair} data-testid={`variable-${variable.name}`}>
          {variable.model.hide !== HIDE_LABEL && (
            <label className={styles.label} htmlFor={`var-${variable.name}`}>
              {variable.model.label || variable.name}
              {variable.error && (
                <Tooltip content={variable.error} theme="error">
                  <Icon name="exclamation-triangle" size="sm" className={styles.error} />
                </Tooltip>
              )}
            </label>
          )}
          <Selector variable={variable} onPick={(values) => onPick(variable.name, values)} />
        </div>
      ))}
    </>
  );
}

function Selector({ variable, onPick }: { variable: Variable; onPick: (values: string[]) => void }) {
  const id = `var-${variable.name}`;
  const picked = toList(variable.value);
  // The drop-down needs an entry for what is selected, also when the store no longer lists it.
  const missing = picked.filter((v) => v && !variable.choices.some((o) => o.value === v));
  const options = [...variable.choices, ...missing.map((v) => ({ value: v, text: v }))].map((o) => ({ value: o.value, label: o.text }));
  if (variable.model.type === 'textbox') {
    return (
      <AutoSizeInput id={id} minWidth={12} defaultValue={picked[0] ?? ''} key={picked[0]} onCommitChange={(e) => onPick([e.currentTarget.value])} />
    );
  }
  if (variable.model.multi) {
    return (
      <MultiCombobox<string>
        id={id}
        width="auto"
        minWidth={16}
        maxWidth={50}
        options={options}
        value={picked}
        placeholder="None"
        onChange={(chosen) => onPick(normalisePick(chosen.map((o) => o.value), picked, Boolean(variable.model.includeAll)))}
      />
    );
  }
  return (
    <Combobox<string>
      id={id}
      width="auto"
      minWidth={12}
      maxWidth={50}
      options={options}
      value={picked[0] ?? null}
      placeholder="None"
      createCustomValue={variable.model.type === 'query'}
      onChange={(option) => onPick([option.value])}
    />
  );
}

const getStyles = (theme: GrafanaTheme2) => ({
  pair: css({ display: 'flex', alignItems: 'stretch' }),
  label: css({
    display: 'flex',
    alignItems: 'center',
    gap: theme.spacing(0.5),
    padding: theme.spacing(0, 1),
    fontSize: theme.typography.bodySmall.fontSize,
    fontWeight: theme.typography.fontWeightMedium,
    background: theme.colors.background.secondary,
    border: `1px solid ${theme.colors.border.weak}`,
    borderRight: 'none',
    borderRadius: `${theme.shape.radius.default} 0 0 ${theme.shape.radius.default}`,
    whiteSpace: 'nowrap',
  }),
  error: css({ color: theme.colors.error.text }),
});
