// The mixin: `_config`, `grafanaDashboards` (file name -> dashboard), `prometheusAlerts`, `prometheusRules`, and the
// Alertmanager configuration that goes with the alerts. All hidden: take what you need.
local alertmanager = import '../alerts/alertmanager.libsonnet';
local alerts = import '../alerts/alerts.libsonnet';
local config = import 'config.libsonnet';
local thresholds = import '../alerts/thresholds.libsonnet';

config + thresholds + alerts + alertmanager + {
  grafanaDashboards+:: {
    'run.json': (import 'run/dashboard.libsonnet')($._config),
    'layers.json': (import 'layers/dashboard.libsonnet')($._config),
    'gpu.json': (import 'gpu/dashboard.libsonnet')($._config),
    'telemetry.json': (import 'telemetry/dashboard.libsonnet')($._config),
  },
  prometheusRules+:: { groups+: [] },
}
