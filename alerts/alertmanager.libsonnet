// Who hears about an alert, how soon and how often. One notification per run and cause; symptoms stay silent while their
// cause fires. `${URL_SERVER}` and `${GLIDESLOPE_TOKEN_FILE}` are filled in when the stack starts.
{
  alertmanagerConfig:: {
    local config = $._config,
    route: {
      receiver: 'glideslope',
      group_by: ['alertname', 'run_id'],
      group_wait: '2s',
      group_interval: '10s',
      repeat_interval: '4h',
      routes: [
        // The dead-man's switch: its receiver raises the alarm when it stops coming.
        { matchers: ['alertname="Watchdog"'], receiver: 'glideslope', group_wait: '0s', group_interval: '10s', repeat_interval: '30s' },
        // A NaN is worth the second that a group would wait for company.
        { matchers: ['severity="critical"', 'component="numerics"'], receiver: 'glideslope', group_wait: '0s' },
      ],
    },
    inhibit_rules: [
      {
        source_matchers: ['alertname="TrainFailed"'],
        target_matchers: ['alertname=~"TrainLostContact|TrainNoProgress|TrainDataStall|TrainLossSpike"'],
        equal: ['run_id', 'run_attempt'],
      },
      {
        source_matchers: ['alertname="TrainNonFinite"'],
        target_matchers: ['alertname=~"TrainLossSpike|TrainNoProgress"'],
        equal: ['run_id', 'run_attempt'],
      },
      {
        source_matchers: ['alertname="TrainLostContact"'],
        target_matchers: ['alertname=~"TrainNoProgress|TrainDataStall"'],
        equal: ['run_id', 'run_attempt'],
      },
      {
        source_matchers: ['alertname="TrainNoProgress"'],
        target_matchers: ['alertname="TrainDataStall"'],
        equal: ['run_id', 'run_attempt'],
      },
      // Without the collector every run looks late or silent. No `equal`: it is the same collector for all of them.
      {
        source_matchers: ['alertname="CollectorDown"'],
        target_matchers: ['alertname=~"TelemetryLag|TrainLostContact|TrainNoProgress"'],
      },
    ],
    receivers: [
      {
        name: 'glideslope',
        webhook_configs: [
          {
            url: config.webhookURL,
            send_resolved: true,
            http_config: { authorization: { type: 'Bearer', credentials_file: config.tokenFile } },
          },
        ],
      },
    ],
  },
}
