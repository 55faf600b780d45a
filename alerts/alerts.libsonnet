// The alert groups for vmalert. Queries are read without the store's usual delay and cache: alerts are judged on what
// arrived a second ago. Links to the runbook and the dashboard are added to every rule here.
local areas = [
  import 'rules/numerics.libsonnet',
  import 'rules/progress.libsonnet',
  import 'rules/data.libsonnet',
  import 'rules/telemetry.libsonnet',
];

{
  prometheusAlerts+:: {
    local config = $._config,
    local linked(rule) = rule {
      annotations+: {
        runbook_url: config.runbookURLPattern % rule.alert,
        dashboard_url: if std.startsWith(rule.alert, 'Train') then config.dashboardURLs.run
        else config.dashboardURLs.telemetry,
      },
    },
    groups+: [
      group {
        eval_delay: '0s',
        params: { latency_offset: ['1ms'], nocache: ['1'] },
        rules: [linked(rule) for rule in group.rules],
      }
      for area in areas
      for group in area(config)
    ],
  },
}
