// Variables of the GPU dashboard: those of Run.
local run = import '../run/variables.libsonnet';

{ datasource: run.datasource, run: run.run, attempt: run.attempt, rank: run.rank }
