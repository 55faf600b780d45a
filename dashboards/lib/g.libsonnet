// The library, in one import.
{
  annotation: import 'annotation.libsonnet',
  dashboard: import 'dashboard.libsonnet',
  names: import 'names.libsonnet',
  override: import 'override.libsonnet',
  panel: import 'panel.libsonnet',
  target: import 'target.libsonnet',
  variable: import 'variable.libsonnet',
}
