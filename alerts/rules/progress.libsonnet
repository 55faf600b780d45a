// Trainings that failed, stand still or fell silent.
local names = import '../../dashboards/lib/names.libsonnet';
local rank = import 'rank.libsonnet';
local m = names.metrics;

function(config)
  local stop = config.thresholds.noProgress;
  local lost = config.thresholds.lostContact;
  local failed = config.thresholds.failed;

  local step = m['train.step'];
  local beat = m['train.heartbeat'];
  local duration = m['train.step.duration'];
  local by = rank.labels;
  local max(expr) = 'max by (%s) (%s)' % [by, expr];

  // Both times come from the training's own clock, so late telemetry alone never looks like a stop, and neither does an
  // end: the last heartbeat of a run that ended is no younger than its last step.
  local alive = max('last_over_time(%s[%s]) > time() - %d' % [beat, stop.window, stop.heartbeatSeconds]);
  local lastStep = max('tlast_change_over_time(%s[%s])' % [step, stop.window]);
  local patience = max('clamp_min(%g * quantile_over_time(0.5, %s[%s]), %d)' % [stop.factor, duration, stop.window, stop.seconds]);
  local stopped = '%s - on (%s) %s > on (%s) %s' % [alive, by, lastStep, by, patience];
  local longStopped = '(%s and on (%s) %s) unless on (%s) %s'
                      % [alive, by, max('%s offset %s' % [beat, stop.window]), by, lastStep];
  local behind = '0 - %s' % max('last_over_time(%s[%s])' % [step, stop.window]);

  // The rank that failed first is the cause; the launcher stops the others after it. The value of the series is the time.
  local failures = 'max by (%s, error_type) (last_over_time(%s{exit_state="failed"}[%s]))' % [by, m['train.attempt.end'], failed.window];

  // A rank that is gone without the mark of a clean end.
  local silence = 'time() - ' + max('last_over_time(%s[%s])' % [beat, lost.window]);
  local ended = 'stale_samples_over_time(%s[%s]) > 0' % [beat, lost.window];
  local gone = '((%s > %d) unless on (%s) %s)' % [silence, lost.seconds, by, ended];

  [
    {
      name: 'progress',
      interval: '2s',
      rules: [
        {
          alert: 'TrainFailed',
          expr: 'time() + (%s)' % rank.worst('0 - ' + failures, failures),
          labels: { severity: 'critical', component: 'progress' },
          annotations: {
            summary: 'A training ended with an error.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: rank {{ $labels.dist_rank }} was the first to fail, with {{ $labels.error_type }}.',
          },
        },
        {
          alert: 'TrainNoProgress',
          expr: '%s or %s' % [
            // The value is the step at which it stands.
            '0 - ceil(%s)' % rank.worst(behind, '(%s)' % stopped),
            // Or -1 when that is no longer known.
            '%s * 0 - 1' % rank.worst(alive, '(%s)' % longStopped),
          ],
          labels: { severity: 'critical', component: 'progress' },
          annotations: {
            summary: 'A training is alive but does not finish steps.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: no step '
                         + '{{ if lt $value 0.0 }}for more than ' + stop.window + '; rank {{ $labels.dist_rank }} stands for all that are alive{{ else }}since step {{ $value }}; rank {{ $labels.dist_rank }} is the furthest behind{{ end }}.',
          },
        },
        {
          alert: 'TrainLostContact',
          expr: 'ceil(%s)' % rank.worst(silence, gone),
          labels: { severity: 'critical', component: 'progress' },
          annotations: {
            summary: 'A rank fell silent without ending.',
            description: 'Run {{ $labels.run_id }} attempt {{ $labels.run_attempt }}: rank {{ $labels.dist_rank }} was last heard {{ $value | humanizeDuration }} ago.',
          },
        },
      ],
    },
  ]
