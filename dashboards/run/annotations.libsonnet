// Events that the dashboards draw over their panels: starts, non-finite values, alerts.
local annotation = import '../lib/annotation.libsonnet';
local queries = import 'queries.libsonnet';

function(config)
  local q = queries(config);
  [
    annotation('Start', q.runStart, 'start', '{{run_id}} attempt {{run_attempt}}', 'green', 'run_id,run_attempt'),
    annotation('Non-finite', q.nonfiniteTime, 'non-finite {{what}}', '{{run_id}} attempt {{run_attempt}}', 'red', 'run_id,what'),
    annotation('Alerts', q.alertTime, '{{alertname}}', '{{run_id}} attempt {{run_attempt}}', 'orange', 'alertname,severity'),
  ]
