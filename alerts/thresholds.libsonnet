// Every limit that an alert compares with. A team overrides single values:
//   (import 'dashboards/mixin.libsonnet') + { _config+:: { thresholds+:: { dataStall+: { share: 0.6 } } } }
// Each window names its unit. "Tiers" are pairs of windows: trainings differ in step time by four orders of magnitude,
// so a rule looks at several windows and a tier speaks only when it holds enough steps.
{
  _config+:: {
    thresholds:: {
      nonFinite: {
        // A loss that is not finite is never expected: one is enough.
        lossWindow: '1m',
        // Gradients that are not finite are expected now and then under loss scaling (the step is skipped); so many of
        // them, on more than this share of the steps of the window, are not.
        gradients: 5,
        share: 0.25,
        gradientWindow: '5m',
      },
      lossSpike: {
        // Median of the short window above the median of the base window by more than `sigmas` robust standard
        // deviations (1.4826 x median absolute deviation) and by more than `jump` of the base: "3 of 5 steps" in
        // terms of windows, because the median of five exceeds a limit exactly when three of them do.
        // On 78 healthy pre-training curves (315,874 steps) 3 of 5 steps above 4 sigmas never happened; 6 and the
        // least jump leave room for the heavier tails that the median absolute deviation does not see.
        sigmas: 6,
        jump: 0.05,
        tiers: [
          { short: '1s', base: '30s' },
          { short: '5s', base: '150s' },
          { short: '30s', base: '15m' },
          { short: '3m', base: '90m' },
        ],
        shortSteps: 5,
        baseSteps: 30,
        keepFor: '30s',
      },
      noProgress: {
        // No step for the larger of `seconds` and `factor` median step times, while the process says it is alive.
        seconds: 15,
        factor: 5,
        // A heartbeat older than this is no sign of life.
        heartbeatSeconds: 30,
        // How far back the last step and the median step time are looked for; after that long without a step the
        // alert keeps firing as long as heartbeats come.
        window: '1h',
      },
      failed: {
        // How long a failure stays in view; longer than `lostContact.window`, so that ranks which the launcher stopped
        // with it never look like a second incident.
        window: '15m',
      },
      lostContact: {
        // Three heartbeats of 5 s. A clean end marks its series as ended and is no loss.
        seconds: 15,
        // Forget a rank that is gone for longer.
        window: '10m',
      },
      dataStall: {
        // Share of the step time that the slowest rank waits for its loader. Public practice calls 20 % bad when the
        // loader's queue is also empty; without the queue's depth a higher share is asked for.
        share: 0.4,
        'for': '10s',
        tiers: ['30s', '5m'],
        // Steps that a tier needs, and steps that the attempt needs before it is judged: first batches are slow. Steps of
        // more than 100 s are too few for the longest tier and are not judged.
        steps: 3,
        warmupSteps: 20,
        warmupWindow: '1h',
      },
      // A rank reports its lag with each heartbeat; a window of six of them outlives a missed one.
      telemetryLag: { seconds: 30, window: '30s', 'for': '15s' },
      telemetryDrops: { window: '5m' },
      // Four times the budget of 0.5 % for minutes is no start-up effect.
      telemetryOverhead: { share: 0.02, window: '2m', 'for': '3m' },
      // After an unclean restart of the store ranks repeat up to a minute of values; that is no tenth of a longer window.
      telemetryReplays: { share: 0.1, window: '10m', 'for': '10m' },
      collectorDown: { window: '30s', 'for': '15s' },
    },
  },
}
