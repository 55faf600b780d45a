// Expressions of the Run dashboard. In: the configuration. Out: named MetricsQL and LogsQL strings.
// Values per rank are reduced to a few series per attempt, so that thousands of ranks stay readable and cheap.
local names = import '../lib/names.libsonnet';
local m = names.metrics;

function(config)
  local run = config.runSelector;
  local ranks = run + ', ' + config.rankSelector;
  local over(reduction, metric, selector=run) =
    '%s by (run_id, run_attempt) (%s{%s})' % [reduction, m[metric], selector];
  local zero(expr) = '%s or vector(0)' % expr;
  // The newest sample of each query step: a plain selector looks only at the step's end, where a run that has just
  // ended is gone, and its last steps would never show.
  local newest(metric) = 'last_over_time(%s{%s}[$__interval])' % [m[metric], run];
  // One label for (run, attempt), so that the legend of a curve over steps reads like the others.
  local segment(expr) = 'max by (segment) (label_join(%s, "segment", " #", "run_id", "run_attempt"))' % expr;
  {
    // --- where the runs are now ---
    latestStep: 'max(%s)' % newest('train.step'),
    latestLoss: 'avg(%s)' % newest('train.loss'),
    latestRate: 'max(%s)' % newest('train.lr'),
    tokensNow: 'sum(rate(%s{%s}))' % [m['train.tokens'], run],
    stepTimeNow: 'avg(quantile_over_time(0.5, %s{%s}[1m]))' % [m['train.step.duration'], run],
    attempts: 'count(count by (run_id, run_attempt) (last_over_time(%s{%s}[$__range])))' % [m['train.attempt.info'], run],
    ranksAlive: zero('count(time() - last_over_time(%s{%s}[5m]) < %d)' % [m['train.heartbeat'], run, config.heartbeatTimeout]),
    heartbeatAge: 'time() - max(last_over_time(%s{%s}[$__range]))' % [m['train.heartbeat'], run],

    // --- curves ---
    segmentStep: segment(over('max', 'train.step')),
    segmentLoss: segment(over('avg', 'train.loss', ranks)),
    loss: over('avg', 'train.loss', ranks),
    rate: 'max by (run_id, run_attempt, optim_group) (%s{%s})' % [m['train.lr'], run],
    gradNorm: over('max', 'train.grad.norm'),
    gradNormClipped: over('max', 'train.grad.norm.clipped'),
    nonfinite: zero('sum(increase(%s{%s}[$__interval]))' % [m['train.nonfinite'], run]),

    // --- speed ---
    // `rate` without a window takes the larger of the query step and the time between samples: right for any step time.
    slowestRanks: 'topk_max(%d, %s{%s})' % [config.worstRanks, m['train.step.duration'], ranks],
    medianStep: 'quantile by (run_id, run_attempt) (0.5, %s{%s})' % [m['train.step.duration'], ranks],
    phases: 'avg by (phase) (avg_over_time(%s{%s}[$__rate_interval]))' % [m['train.phase.duration'], ranks],
    tokens: 'sum by (run_id, run_attempt) (rate(%s{%s}))' % [m['train.tokens'], run],
    samples: 'sum by (run_id, run_attempt) (rate(%s{%s}))' % [m['train.samples'], run],

    // --- memory of the fullest rank ---
    hostMemory: over('max', 'process.memory.usage', ranks),
    deviceAllocated: over('max', 'train.memory.allocated', ranks),
    deviceReserved: over('max', 'train.memory.reserved', ranks),
    devicePeak: over('max', 'train.memory.allocated.peak', ranks),

    // --- events ---
    logs: '"run.id":~"$run"',
    runStart: 'min by (run_id, run_attempt) (tfirst_over_time(%s{%s, dist_rank="0"}[30d])) * 1000' % [m['train.attempt.info'], run],
    nonfiniteTime: 'min by (run_id, run_attempt, what) (tlast_change_over_time(%s{%s}[1h]) and %s{%s} > 0) * 1000'
                   % [m['train.nonfinite'], run, m['train.nonfinite'], run],
    alertTime: '(%s{run_id=~"$run", run_id!=""} and ignoring (alertstate) %s{alertstate="firing"}) * 1000'
               % [m.ALERTS_FOR_STATE, m.ALERTS],
  }
