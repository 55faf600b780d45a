// Variables of the Layers dashboard: those of Run.
local run = import '../run/variables.libsonnet';

{ datasource: run.datasource, run: run.run, attempt: run.attempt }
