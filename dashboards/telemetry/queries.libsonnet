// Expressions of the Telemetry health dashboard: what the telemetry costs, and whether all of it arrives.
// In: the configuration. Out: named MetricsQL strings.
local names = import '../lib/names.libsonnet';
local m = names.metrics;

function(config)
  local run = config.runSelector;
  local zero(expr) = '%s or vector(0)' % expr;
  local sumOf(name, selector='') = 'sum(rate(%s%s[$__rate_interval]))' % [m[name], selector];
  {
    // --- in the training processes ---
    // `increase` over a fixed time, not `rate`: the first sample counts what came before it as if it took no time.
    overheadNow: 'max(increase(%s{%s}[1m]) / 60)' % [m['train.telemetry.overhead'], run],
    overhead: 'avg by (run_id, run_attempt) (increase(%s{%s}[1m]) / 60)' % [m['train.telemetry.overhead'], run],
    overheadWorst: 'max by (run_id, run_attempt) (increase(%s{%s}[1m]) / 60)' % [m['train.telemetry.overhead'], run],
    lagNow: 'max(%s{%s})' % [m['train.telemetry.lag'], run],
    lag: 'max by (run_id, run_attempt) (%s{%s})' % [m['train.telemetry.lag'], run],
    queue: 'max by (run_id, run_attempt) (%s{%s})' % [m['train.telemetry.queue'], run],
    pointsNow: 'sum(rate(%s{%s}[1m]))' % [m['train.telemetry.points'], run],
    points: 'sum by (run_id, run_attempt) (rate(%s{%s}[$__rate_interval]))' % [m['train.telemetry.points'], run],
    replays: 'sum by (run_id, run_attempt) (rate(%s{%s}[$__rate_interval]))' % [m['train.telemetry.replays'], run],
    dropsInRange: zero('sum(increase(%s{%s}[$__range]))' % [m['train.telemetry.drops'], run]),
    drops: 'sum by (drop_class, drop_reason) (increase(%s{%s}[$__interval]))' % [m['train.telemetry.drops'], run],
    dropsAll: zero('sum(increase(%s{%s}[$__interval]))' % [m['train.telemetry.drops'], run]),
    errorsInRange: zero('sum(increase(%s{%s}[$__range]))' % [m['train.telemetry.errors'], run]),
    errors: 'sum by (callback) (increase(%s{%s}[$__interval]))' % [m['train.telemetry.errors'], run],
    errorsAll: zero('sum(increase(%s{%s}[$__interval]))' % [m['train.telemetry.errors'], run]),

    // --- in the collector ---
    relayed: 'sum by (http_response_status_code) (rate(%s[$__rate_interval]))' % m.otelcol_store_relay_requests_total,
    relayedBytes: sumOf('otelcol_store_relay_bytes_total'),
    accepted: sumOf('otelcol_receiver_accepted_metric_points_total'),
    refused: zero(sumOf('otelcol_receiver_refused_metric_points_total')),
    sent: sumOf('otelcol_exporter_sent_metric_points_total'),
    failed: '(%s) + (%s)' % [
      zero(sumOf('otelcol_exporter_send_failed_metric_points_total')),
      zero(sumOf('otelcol_exporter_enqueue_failed_metric_points_total')),
    ],
    queueFill: 'max by (exporter) (%s / %s)' % [m.otelcol_exporter_queue_size, m.otelcol_exporter_queue_capacity],
    collectorMemory: 'max(%s)' % m.otelcol_process_memory_rss,

    // --- in the stores ---
    rows: 'sum by (program) (rate(%s[$__rate_interval]))' % m.vm_rows_inserted_total,
    ignored: 'sum by (reason) (rate(%s[$__rate_interval])) > 0' % m.vm_rows_ignored_total,
    ignoredAll: 'sum(rate(%s[$__rate_interval]))' % m.vm_rows_ignored_total,
    readOnly: 'max(%s)' % m.vm_storage_is_read_only,
    freeDisk: 'min(%s)' % m.vm_free_disk_space_bytes,
    storeSize: 'sum by (program) (%s)' % m.vm_data_size_bytes,
    storeMemory: 'max by (program) (%s)' % m.process_resident_memory_bytes,

    // --- the alerting ---
    up: 'max by (program) (%s{program!=""})' % m.up,
    // One bar per kind of exporter, down as soon as one of its pages is: there are as many pages as nodes.
    upElsewhere: 'min by (service_name) (%s{program=""})' % m.up,
    watchdog: zero('count(%s{alertname="Watchdog", alertstate="firing"})' % m.ALERTS),
    firing: 'max by (alertname, severity, run_id, run_attempt, dist_rank) (last_over_time(%s{alertstate="firing"}[1m]))' % m.ALERTS,
    notifications: 'sum(increase(%s[$__interval]))' % m.alertmanager_notifications_total,
    notificationsFailed: 'sum(increase(%s[$__interval]))' % m.alertmanager_notifications_failed_total,
    missed: 'sum(increase(%s[$__interval]))' % m.vmalert_iteration_missed_total,
    ruleErrors: 'sum(increase(%s[$__interval]))' % m.vmalert_execution_errors_total,
  }
