// Variables of the Telemetry health dashboard: those of Run.
local run = import '../run/variables.libsonnet';

{ datasource: run.datasource, run: run.run, attempt: run.attempt }
