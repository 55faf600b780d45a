// Telemetry health: cost, delay and loss on the way from a training step to a chart, link by link.
local annotations = import '../run/annotations.libsonnet';
local g = import '../lib/g.libsonnet';
local queries = import 'queries.libsonnet';
local vars = import 'variables.libsonnet';

local attempt = '{{run_id}} #{{run_attempt}}';

function(config)
  local q = queries(config);
  local p = g.panel;
  local limits = config.thresholds;
  local stat(title, description, expr, unit='short') =
    p.stat(title, description, [g.target.range(expr, title)], unit) + p.every('5s') + p.size(4, 4);
  local line(title, description, expr, unit, legend) =
    p.timeseries(title, description, [g.target.range(expr, legend)], unit) + p.every('5s') + p.size(8, 7) + p.bounds(min=0);
  local lines(title, description, pairs, unit) =
    p.timeseries(title, description, [g.target.range(pair[1], pair[0]) for pair in pairs], unit) + p.every('5s') + p.size(8, 7) + p.bounds(min=0);

  g.dashboard(
    config,
    'glideslope-telemetry',
    [vars.datasource, vars.run, vars.attempt],
    annotations(config),
    [
      stat('Overhead', 'Share of the training time that instrumentation took on the worst rank, last minute. The budget is 0.5 %.', q.overheadNow, 'percentunit')
      + p.decimals(2) + p.thresholds([['green', null], ['orange', config.overheadBudget], ['red', 4 * config.overheadBudget]]) + p.sparkline,
      stat('Lag', 'Age of the oldest value that is not yet acknowledged, worst rank.', q.lagNow, 's')
      + p.decimals(1) + p.thresholds([['green', null], ['orange', limits.telemetryLag.seconds]]) + p.sparkline,
      stat('Points sent', 'Points per second that the collector acknowledged, all ranks.', q.pointsNow, 'si:values/s') + p.decimals(1) + p.sparkline,
      stat('Dropped', 'Points, spans and logs that were dropped in this time range.', q.dropsInRange, 'locale')
      + p.decimals(0) + p.thresholds([['green', null], ['red', 1]]),
      stat('Callback errors', 'Failures of our own callbacks in this time range; training never sees them.', q.errorsInRange, 'locale')
      + p.decimals(0) + p.thresholds([['green', null], ['orange', 1]]),
      stat('Watchdog', 'An alert that always fires: when it stops, alerting itself is broken.', q.watchdog, 'none')
      + p.mapped({ '0': ['silent', 'red'], '1': ['alive', 'green'] }),

      p.row('Training processes'),
      lines('Overhead', 'Host time of instrumentation per second of training.', [
        [attempt + ' mean over ranks', q.overhead],
        [attempt + ' worst rank', q.overheadWorst],
      ], 'percentunit') + p.thresholdLine(config.overheadBudget),
      line('Lag', 'Age of the oldest unacknowledged value on the worst rank.', q.lag, 's', attempt),
      line('Spool', 'Bytes on disk that wait to be sent, worst rank.', q.queue, 'bytes', attempt),
      lines('Points per second', 'Acknowledged by the collector, and sent again after a restart of a store.', [
        [attempt + ' sent', q.points],
        [attempt + ' replayed', q.replays],
      ], 'si:values/s'),
      lines('Dropped', 'What was dropped, by kind of data and reason. Layers go first, the loss last.', [
        ['all', q.dropsAll],
        ['{{drop_class}}: {{drop_reason}}', q.drops],
      ], 'none') + p.asBars + p.counts,
      lines('Callback errors', 'Failures of our own callbacks. A callback that fails too often switches itself off.', [
        ['all', q.errorsAll],
        ['{{callback}}', q.errors],
      ], 'none') + p.asBars + p.counts,

      p.row('Collector'),
      lines('Requests of ranks', 'Metric requests of ranks, handed to the store, by the status of its answer: 503 means that ranks wait and send again.', [
        ['{{http_response_status_code}}', q.relayed],
      ], 'reqps'),
      line('Bytes of ranks', 'Bytes of metric requests handed to the store, before compression.', q.relayedBytes, 'Bps', 'relayed'),
      lines('Points through the pipelines', 'Accepted from scrapes and other senders, sent to the stores, refused and failed (lost). What ranks send is handed on and counted above.', [
        ['accepted', q.accepted],
        ['sent', q.sent],
        ['refused', q.refused],
        ['failed', q.failed],
      ], 'si:values/s')
      + p.overrides([g.override.colored('refused', 'orange'), g.override.colored('failed', 'red')]),
      line('Queues', 'How full the queue on disk before each store is. A full queue makes ranks keep their values.', q.queueFill, 'percentunit', '{{exporter}}')
      + p.size(12, 7) + p.bounds(min=0, max=1),
      line('Collector memory', 'Resident memory of the collector.', q.collectorMemory, 'bytes', 'resident') + p.size(12, 7),

      p.row('Stores'),
      line('Rows stored', 'Rows per second that each VictoriaMetrics took in.', q.rows, 'si:rows/s', '{{program}}'),
      lines('Rows ignored', 'Rows that VictoriaMetrics accepted and threw away, by reason: too old, too new, too many labels.', [
        ['all', q.ignoredAll],
        ['{{reason}}', q.ignored],
      ], 'si:rows/s'),
      line('Store memory', 'Resident memory of each program of the stack.', q.storeMemory, 'bytes', '{{program}}'),
      p.stat('Storage', 'VictoriaMetrics stops writing when the disk is nearly full.', [g.target.range(q.readOnly, 'Storage')], 'none')
      + p.every('5s') + p.size(4, 7) + p.mapped({ '0': ['writable', 'green'], '1': ['read-only', 'red'] }),
      p.stat('Free disk', 'Space left where the metrics are kept.', [g.target.range(q.freeDisk, 'Free disk')], 'bytes')
      + p.every('5s') + p.size(4, 7) + p.decimals(1) + p.thresholds([['red', null], ['orange', 5e9], ['green', 20e9]]),
      line('Size on disk', 'What each VictoriaMetrics holds.', q.storeSize, 'bytes', '{{program}}') + p.fill(10),
      p.timeline('Scraped programs', 'Whether the collector reached each page it scrapes.', [
        g.target.range(q.up, '{{program}}'),
        g.target.range(q.upElsewhere, '{{service_name}}'),
      ], { '0': ['down', 'red'], '1': ['up', 'green'] }) + p.every('5s') + p.size(8, 7),

      p.row('Alerting'),
      p.table('Firing now', 'Alerts that fire at the end of the time range; Watchdog always does.', [g.target.rows(q.firing)])
      + p.size(12, 7)
      + p.columns([['alertname', 'Alert'], ['severity', 'Severity'], ['run_id', 'Run'], ['run_attempt', 'Attempt'], ['dist_rank', 'Rank']],
                  ['Time', 'Value'])
      + p.overrides([g.override.named('Severity', { 'custom.width': 100 })]),
      lines('Notifications', 'Sent and failed by Alertmanager, per interval; the watchdog alone is one each half a minute.', [
        ['sent', q.notifications],
        ['failed', q.notificationsFailed],
      ], 'none') + p.size(6, 7) + p.asBars + p.counts + p.overrides([g.override.colored('failed', 'red')]),
      lines('Rule trouble', 'Evaluations that vmalert missed because the one before took too long, and expressions that failed.', [
        ['missed', q.missed],
        ['failed', q.ruleErrors],
      ], 'none') + p.size(6, 7) + p.asBars + p.counts,
    ]
  )
