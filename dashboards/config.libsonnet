// Every knob of the dashboards and alerts. Override with `(import 'mixin.libsonnet') + { _config+:: { ... } }`.
{
  _config+:: {
    // Tag, first time range and refresh of every dashboard.
    tags: ['glideslope'],
    from: 'now-15m',
    refresh: '5s',

    // The dashboards: uid, title and one line, in the order of their links.
    pages: [
      { uid: 'glideslope-run', title: 'Run', about: 'Loss, speed and health of a training, live.' },
      { uid: 'glideslope-layers', title: 'Layers', about: 'Gradient norm of every layer over time.' },
      { uid: 'glideslope-gpu', title: 'GPU', about: 'DCGM telemetry, joined to run and rank by GPU UUID.' },
      { uid: 'glideslope-telemetry', title: 'Telemetry health', about: 'What the telemetry costs, and whether all of it arrives.' },
    ],

    // Label matchers of the training series, from the variables of the dashboard.
    runSelector: 'run_id=~"$run", run_attempt=~"$attempt"',
    rankSelector: 'dist_rank=~"$rank"',

    // A rank whose last heartbeat is older than this counts as gone, in seconds.
    heartbeatTimeout: 30,

    // Panels with one series per rank or layer show the worst so many.
    worstRanks: 10,
    worstLayers: 15,

    // Share of the training time that instrumentation may take.
    overheadBudget: 0.005,

    // Where alerts link to and are sent. `${…}` is filled in when the stack starts, `{{ … }}` by vmalert.
    runbookURLPattern: '${URL_SERVER}/runbooks/%s',
    dashboardURLs: {
      run: '${URL_SERVER}/d/glideslope-run?var-run={{ $labels.run_id | queryEscape }}',
      telemetry: '${URL_SERVER}/d/glideslope-telemetry',
    },
    webhookURL: '${URL_SERVER}/api/alerts/webhook',
    tokenFile: '${GLIDESLOPE_TOKEN_FILE}',
  },
}
