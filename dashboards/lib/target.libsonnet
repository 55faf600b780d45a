// Queries that a panel sends. Each carries its own data source, so that one dashboard can mix stores.
{
  local target = self,

  source:: {
    metrics: { type: 'prometheus', uid: '${datasource}' },
    logs: { type: 'victoriametrics-logs-datasource', uid: '${logs}' },
    traces: { type: 'jaeger', uid: '${traces}' },
  },

  // A line per series over the time range.
  range(expr, legend):: {
    refId: 'A',
    datasource: target.source.metrics,
    editorMode: 'code',
    expr: expr,
    format: 'time_series',
    instant: false,
    range: true,
    legendFormat: legend,
  },

  // One value per series at the end of the time range.
  instant(expr, legend):: target.range(expr, legend) + { instant: true, range: false },

  // Rows with one column per label; `over(time)` for the step axis, `last` for listings.
  rowsOverTime(expr):: target.range(expr, '') + { format: 'table' },
  rows(expr):: target.instant(expr, '') + { format: 'table' },

  // LogsQL; newest lines first.
  logs(expr, lines=200):: {
    refId: 'A',
    datasource: target.source.logs,
    editorMode: 'code',
    expr: expr,
    queryType: 'instant',
    maxLines: lines,
  },

  // Search of the traces store: one row per trace with traceID, traceName, startTime, duration.
  traces(service, limit=20):: {
    refId: 'A',
    datasource: target.source.traces,
    queryType: 'search',
    service: service,
    limit: limit,
  },
}
