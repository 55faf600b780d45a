// Events drawn across panels. The VALUE of the series is the event's time in epoch milliseconds, so an event stays
// where it belongs at any zoom, and repeated samples of it count once.
// Written twice: Grafana's Prometheus source reads `target`, the VictoriaMetrics plugin the fields beside it.
local target = import 'target.libsonnet';

function(name, expr, title, text, color, tags='') {
  name: name,
  enable: true,
  hide: false,
  iconColor: color,
  datasource: target.source.metrics,
  expr: expr,
  step: '10s',
  titleFormat: title,
  textFormat: text,
  tagKeys: tags,
  useValueForTime: true,
  target: { refId: 'Anno', expr: expr, interval: '10s', range: true, instant: false },
}
