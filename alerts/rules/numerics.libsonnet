// Numbers that went wrong: values that are not finite, and jumps of the loss.
local names = import '../../dashboards/lib/names.libsonnet';
local rank = import 'rank.libsonnet';
local m = names.metrics;

function(config)
  local nan = config.thresholds.nonFinite;
  local spike = config.thresholds.lossSpike;

  local count = m['train.nonfinite'];
  local step = m['train.step'];
  local loss = m['train.loss'];
  local by = rank.labels;

  local badLoss = 'sum by (%s) (increase(%s{what="loss"}[%s])) > 0' % [by, count, nan.lossWindow];
  local badGradients = 'max by (%s) (increase(%s{what=~"grad|grad.norm|param|update|activation"}[%s]))' % [by, count, nan.gradientWindow];
  local steps = 'max by (%s) (max_over_time(%s[%s]) - min_over_time(%s[%s]))' % [by, step, nan.gradientWindow, step, nan.gradientWindow];
  local bad = '((%s) or (%s >= %d and on (%s) (%s > on (%s) %g * %s)))'
              % [badLoss, badGradients, nan.gradients, by, badGradients, by, nan.share, steps];
  // The rank that went bad first has counted most since.
  local total = 'sum by (%s) (last_over_time(%s{what!="metric"}[%s]))' % [by, count, nan.gradientWindow];

  local tier(windows) =
    local short = '%s[%s]' % [loss, windows.short];
    local base = '%s[%s] offset %s' % [loss, windows.base, windows.short];
    local median = 'quantile_over_time(0.5, %s)' % base;
    local excess = 'quantile_over_time(0.5, %s) - %s - %g * abs(%s)' % [short, median, spike.jump, median];
    local spread = '%g * 1.4826 * mad_over_time(%s)' % [spike.sigmas, base];
    '(%s - %s and count_over_time(%s) >= %d and count_over_time(%s) >= %d)'
    % [excess, spread, short, spike.shortSteps, base, spike.baseSteps];
  // Half of the ranks have to see it: the loss of one rank is noisier than that of the batch.
  local spiking(windows) = 'quantile by (run_id, run_attempt) (0.5, %s) > 0' % tier(windows);
  local mean = 'avg by (run_id, run_attempt) (last_over_time(%s[1m]))' % loss;

  [
    {
      name: 'numerics',
      interval: '1s',
      rules: [
        {
          alert: 'TrainNonFinite',
          // The value is the step, so that the message can name it.
          expr: '%s * 0 + on (run_id, run_attempt) group_left max by (run_id, run_attempt) (last_over_time(%s[%s]))'
                % [rank.worst(total, bad), step, nan.gradientWindow],
          keep_firing_for: '1m',
          labels: { severity: 'critical', component: 'numerics' },
          annotations: {
            summary: 'A training computes values that are not finite.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: NaN or infinite values, first on rank {{ $labels.dist_rank }}, at or before step {{ $value }}.',
          },
        },
        {
          alert: 'TrainLossSpike',
          expr: '%s and on (run_id, run_attempt) (%s)' % [mean, std.join(' or ', [spiking(windows) for windows in spike.tiers])],
          keep_firing_for: spike.keepFor,
          labels: { severity: 'warning', component: 'numerics' },
          annotations: {
            summary: 'The loss of a training jumped.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: loss {{ $value | printf "%.4g" }}, far above what it was. Highest on rank '
                         + '{{ with printf "topk(1, last_over_time(' + loss + '{run_id=%q, run_attempt=%q}[1m]))" $labels.run_id $labels.run_attempt | query }}{{ . | first | label "dist_rank" }}{{ else }}?{{ end }}.',
          },
        },
      ],
    },
  ]
