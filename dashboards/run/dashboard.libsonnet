// Run: is it learning, how fast, what happened.
local g = import '../lib/g.libsonnet';
local annotations = import 'annotations.libsonnet';
local queries = import 'queries.libsonnet';
local vars = import 'variables.libsonnet';

local attempt = '{{run_id}} #{{run_attempt}}';
local phaseColors = {
  data: 'orange',
  forward: 'blue',
  backward: 'purple',
  optimizer: 'green',
  collective: 'red',
  checkpoint: 'yellow',
  eval: 'super-light-blue',
  other: 'text',
};

function(config)
  local q = queries(config);
  local p = g.panel;
  local stat(title, description, expr, unit='short') = p.stat(title, description, [g.target.range(expr, title)], unit);
  local line(title, description, expr, unit='short', legend=attempt) =
    p.timeseries(title, description, [g.target.range(expr, legend)], unit);

  g.dashboard(
    config,
    'glideslope-run',
    [vars.datasource, vars.logs, vars.traces, vars.run, vars.attempt, vars.rank, vars.service],
    annotations(config),
    [
      stat('Step', 'Completed optimizer steps of the run that is furthest.', q.latestStep, 'locale') + p.decimals(0),
      stat('Loss', 'Mean over ranks of the newest step.', q.latestLoss) + p.decimals(3) + p.sparkline,
      stat('Throughput', 'Tokens that all ranks process in a second.', q.tokensNow, 'si:tok/s') + p.decimals(1) + p.sparkline + p.every('5s'),
      stat('Step time', 'Median over the last minute, mean over ranks.', q.stepTimeNow, 's') + p.decimals(2) + p.sparkline,
      stat('Learning rate', 'Largest over parameter groups.', q.latestRate, 'sci') + p.decimals(2),
      stat('Attempts', 'Starts of the training processes that sent data in this time range.', q.attempts, 'none') + p.decimals(0)
      + p.thresholds([['text', null], ['orange', 2]]),
      stat('Ranks alive', 'Ranks whose last sign of life is younger than %d s.' % config.heartbeatTimeout, q.ranksAlive, 'none')
      + p.decimals(0) + p.thresholds([['text', null], ['green', 1]]),
      stat('Heartbeat', 'Time since the last sign of life of any rank.', q.heartbeatAge, 's') + p.decimals(0)
      + p.thresholds([['green', null], ['orange', config.heartbeatTimeout], ['text', 10 * config.heartbeatTimeout]]),

      p.row('Learning'),
      line('Loss', 'Mean over the chosen ranks, one line per attempt.', q.loss) + p.size(12, 9) + p.decimals(3),
      p.byStep('Loss by step', 'The same loss against the training step: attempts and runs line up where they trained the same steps.',
               g.target.rowsOverTime(q.segmentLoss), g.target.rowsOverTime(q.segmentStep)) + p.size(12, 9) + p.decimals(3),
      p.timeseries('Gradient norm', 'Total gradient norm before and after clipping, on a logarithmic axis.', [
        g.target.range(q.gradNorm, attempt + ' before clipping'),
        g.target.range(q.gradNormClipped, attempt + ' after clipping'),
      ]) + p.size(8, 8) + p.logarithmic,
      line('Learning rate', 'Rate used by the step, per parameter group.', q.rate, 'sci', attempt + ' group {{optim_group}}') + p.size(8, 8),
      line('Non-finite values', 'NaN and infinite losses, gradients and parameters found per interval, all ranks together.', q.nonfinite, 'none', 'non-finite')
      + p.size(8, 8) + p.asBars + p.every('5s') + p.counts
      + p.overrides([g.override.colored('non-finite', 'red')]),

      p.row('Speed'),
      p.timeseries('Step time', 'Wall time of a step: the %d slowest of the chosen ranks, and the median over them.' % config.worstRanks, [
        g.target.range(q.slowestRanks, attempt + ' rank {{dist_rank}}'),
        g.target.range(q.medianStep, attempt + ' median'),
      ], 's') + p.size(8, 8) + p.bounds(min=0)
      + p.overrides([g.override.query('B', { 'custom.lineWidth': 2.5, color: { mode: 'fixed', fixedColor: 'text' } })]),
      line('Phases of a step', 'Host time of each part of a step, mean over the chosen ranks; stacked, so the top edge is the time that is accounted for.',
           q.phases, 's', '{{phase}}') + p.size(8, 8) + p.stacked + p.bounds(min=0) + p.every('5s')
      + p.overrides([g.override.colored(phase, phaseColors[phase]) for phase in std.objectFields(phaseColors)]),
      line('Tokens per second', 'All ranks of an attempt together.', q.tokens, 'si:tok/s') + p.size(8, 8) + p.bounds(min=0) + p.every('5s') + p.fill(10),

      p.timeseries('Memory', 'Fullest of the chosen ranks: resident memory of the process, and device memory where there is a device.', [
        g.target.range(q.hostMemory, attempt + ' host resident'),
        g.target.range(q.deviceAllocated, attempt + ' device allocated'),
        g.target.range(q.devicePeak, attempt + ' device peak'),
        g.target.range(q.deviceReserved, attempt + ' device reserved'),
      ], 'bytes') + p.size(12, 8) + p.bounds(min=0) + p.every('5s'),
      line('Samples per second', 'All ranks of an attempt together.', q.samples, 'si:smp/s') + p.size(12, 8) + p.bounds(min=0) + p.every('5s') + p.fill(10),

      p.row('What happened'),
      p.logs('Events', 'Starts, ends, non-finite values and dropped telemetry of the runs; the trace id of an event opens its step.',
             [g.target.logs(q.logs)]) + p.size(14, 10),
      p.table('Step traces', 'Newest kept steps: one trace holds the spans of all ranks. Click the trace id for its waterfall.',
              [g.target.traces('$service')]) + p.size(10, 10)
      + p.widths({ 'Trace name': 190, 'Start time': 170, Duration: 85, Spans: 60 }),
    ]
  )
