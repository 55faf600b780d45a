// A dashboard in Grafana's classic model, which Grafana 11, 12 and 13 provision from files (13 refuses its newer one).
local layout = import 'layout.libsonnet';
local links = import 'links.libsonnet';

function(config, uid, variables, annotations, panels)
  local page = [page for page in config.pages if page.uid == uid][0];
  {
    uid: uid,
    title: page.title,
    description: page.about,
    tags: config.tags,
    editable: false,
    graphTooltip: 1,
    schemaVersion: 39,
    version: 1,
    timezone: 'browser',
    time: { from: config.from, to: 'now' },
    timepicker: { refresh_intervals: ['1s', '5s', '10s', '30s', '1m', '5m'] },
    refresh: config.refresh,
    links: links(config, uid),
    templating: { list: variables },
    annotations: { list: annotations },
    panels: layout(panels),
  }
