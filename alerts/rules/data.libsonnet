// Trainings that wait for their data.
local names = import '../../dashboards/lib/names.libsonnet';
local rank = import 'rank.libsonnet';
local m = names.metrics;

function(config)
  local stall = config.thresholds.dataStall;

  local duration = m['train.step.duration'];
  local phase = m['train.phase.duration'] + '{phase="data"}';
  local by = rank.labels;
  local longest = stall.tiers[std.length(stall.tiers) - 1];
  local max(expr) = 'max by (%s) (%s)' % [by, expr];

  local share(window) =
    '(%s / on (%s) %s and on (%s) %s >= %d)' % [
      max('sum_over_time(%s[%s])' % [phase, window]),
      by,
      max('sum_over_time(%s[%s])' % [duration, window]),
      by,
      max('count_over_time(%s[%s])' % [duration, window]),
      stall.steps,
    ];
  local warm = 'max by (run_id, run_attempt) (count_over_time(%s[%s])) >= %d' % [duration, stall.warmupWindow, stall.warmupSteps];
  local waiting = ['max by (run_id, run_attempt) (%s) > %g' % [share(window), stall.share] for window in stall.tiers];

  [
    {
      name: 'data',
      interval: '2s',
      rules: [
        {
          alert: 'TrainDataStall',
          expr: '(%s) and on (run_id, run_attempt) %s' % [std.join(' or ', waiting), warm],
          'for': stall['for'],
          labels: { severity: 'warning', component: 'data' },
          annotations: {
            summary: 'A training waits for its data.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: {{ $value | humanizePercentage }} of the step time is spent waiting for the loader. Longest wait on rank '
                         + '{{ with printf "topk(1, avg_over_time(' + m['train.phase.duration'] + '{phase=%q, run_id=%q, run_attempt=%q}[' + longest + ']))" "data" $labels.run_id $labels.run_attempt | query }}{{ . | first | label "dist_rank" }}{{ else }}?{{ end }}.',
          },
        },
      ],
    },
  ]
