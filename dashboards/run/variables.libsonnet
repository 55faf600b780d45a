// Variables of the dashboards that show training: stores, run, attempt, rank.
local names = import '../lib/names.libsonnet';
local variable = import '../lib/variable.libsonnet';
local m = names.metrics;

{
  datasource: variable.source('datasource', 'prometheus', 'Metrics', regex='/^(?!.*[Cc]urves)/'),
  logs: variable.source('logs', 'victoriametrics-logs-datasource', 'Logs'),
  traces: variable.source('traces', 'jaeger', 'Traces'),
  run: variable.values('run', 'Run', m['train.run.info'], 'run_id', sort=8),
  attempt: variable.values('attempt', 'Attempt', m['train.attempt.info'] + '{run_id=~"$run"}', 'run_attempt', sort=3),
  rank: variable.values('rank', 'Rank', m['train.rank.info'] + '{run_id=~"$run", run_attempt=~"$attempt"}', 'dist_rank', sort=3),
  service: variable.first('service', m['train.run.info'] + '{run_id=~"$run"}', 'service_name'),
}
