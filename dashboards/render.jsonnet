// Everything that `glideslope render` writes, in one evaluation.
local mixin = import 'mixin.libsonnet';

{
  dashboards: mixin.grafanaDashboards,
  rules: { groups: mixin.prometheusRules.groups + mixin.prometheusAlerts.groups },
  alertmanager: mixin.alertmanagerConfig,
}
