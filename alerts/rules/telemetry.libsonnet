// The telemetry itself: late, dropped, or not arriving at all.
local names = import '../../dashboards/lib/names.libsonnet';
local m = names.metrics;

function(config)
  local lag = config.thresholds.telemetryLag;
  local drops = config.thresholds.telemetryDrops;
  local overhead = config.thresholds.telemetryOverhead;
  local replays = config.thresholds.telemetryReplays;
  local collector = config.thresholds.collectorDown;

  [
    {
      name: 'telemetry',
      interval: '5s',
      rules: [
        {
          alert: 'TelemetryLag',
          expr: 'max by (run_id, run_attempt) (last_over_time(%s[%s])) > %d' % [m['train.telemetry.lag'], lag.window, lag.seconds],
          'for': lag['for'],
          labels: { severity: 'warning', component: 'telemetry' },
          annotations: {
            summary: 'Telemetry of a training arrives late.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: the oldest unacknowledged value is {{ $value | humanizeDuration }} old. Most on rank '
                         + '{{ with printf "topk(1, last_over_time(' + m['train.telemetry.lag'] + '{run_id=%q, run_attempt=%q}[1m]))" $labels.run_id $labels.run_attempt | query }}{{ . | first | label "dist_rank" }}{{ else }}?{{ end }}.',
          },
        },
        {
          alert: 'TelemetryDrops',
          expr: 'sum by (run_id, run_attempt, drop_class, drop_reason) (increase(%s[%s])) > 0' % [m['train.telemetry.drops'], drops.window],
          labels: { severity: 'warning', component: 'telemetry' },
          annotations: {
            summary: 'Telemetry of a training is being dropped.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: {{ $value | printf "%.0f" }} {{ $labels.drop_class }} dropped in ' + drops.window + ', reason {{ $labels.drop_reason }}.',
          },
        },
        {
          alert: 'TelemetryOverhead',
          expr: 'max by (run_id, run_attempt) (rate(%s[%s])) > %g' % [m['train.telemetry.overhead'], overhead.window, overhead.share],
          'for': overhead['for'],
          labels: { severity: 'warning', component: 'telemetry' },
          annotations: {
            summary: 'Telemetry takes too much of the training time.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: instrumentation took {{ $value | humanizePercentage }} of the time on the worst rank.',
          },
        },
        {
          alert: 'TelemetryReplays',
          expr: 'sum by (run_id, run_attempt) (increase(%s[%s])) > %g * sum by (run_id, run_attempt) (increase(%s[%s]))' % [
            m['train.telemetry.replays'],
            replays.window,
            replays.share,
            m['train.telemetry.points'],
            replays.window,
          ],
          'for': replays['for'],
          labels: { severity: 'info', component: 'telemetry' },
          annotations: {
            summary: 'Telemetry is sent again and again.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }} sent {{ $value | printf "%.0f" }} points more than once in ' + replays.window + ': answers are lost on the way, or the store restarts over and over. No value is lost or doubled.',
          },
        },
        {
          alert: 'CollectorDown',
          // The collector scrapes itself: when its own series stop, nothing comes through it.
          expr: 'absent(last_over_time(%s[%s]))' % [m.otelcol_process_uptime_total, collector.window],
          'for': collector['for'],
          labels: { severity: 'critical', component: 'telemetry' },
          annotations: {
            summary: 'The collector does not report.',
            description: 'No sign of life of the collector for {{ "' + collector.window + '" }}: trainings keep their values on disk and send them when it is back, and every other alert is blind until then.',
          },
        },
      ],
    },
    {
      name: 'watchdog',
      interval: '5s',
      rules: [
        {
          alert: 'Watchdog',
          expr: 'vector(1)',
          labels: { severity: 'none', component: 'alerting' },
          annotations: {
            summary: 'Always fires, to prove that alerts arrive.',
            description: 'A receiver that stops getting this one knows that alerting is broken.',
          },
        },
      ],
    },
  ]
