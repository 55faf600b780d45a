// Template variables. Values come from the small info series only: a lookup over wide series costs seconds at scale.
local target = import 'target.libsonnet';

{
  source(name, type, label, regex=''):: {
    name: name,
    label: label,
    type: 'datasource',
    query: type,
    refresh: 1,
    hide: 0,
    multi: false,
    includeAll: false,
    regex: regex,
    current: {},
    options: [],
  },

  // Several values or all of them. `.*` stands for all, so that thousands of values never become one long regex.
  values(name, label, series, key, sort=7):: {
    name: name,
    label: label,
    type: 'query',
    datasource: target.source.metrics,
    definition: 'label_values(%s, %s)' % [series, key],
    query: {
      qryType: 1,
      query: 'label_values(%s, %s)' % [series, key],
      refId: 'PrometheusVariableQueryEditor-VariableQuery',
    },
    refresh: 2,
    sort: sort,
    hide: 0,
    multi: true,
    includeAll: true,
    allValue: '.*',
    regex: '',
    current: { selected: true, text: ['All'], value: ['$__all'] },
    options: [],
  },

  // The first value, chosen without a control: other queries need it.
  first(name, series, key):: {
    name: name,
    type: 'query',
    datasource: target.source.metrics,
    definition: 'label_values(%s, %s)' % [series, key],
    query: {
      qryType: 1,
      query: 'label_values(%s, %s)' % [series, key],
      refId: 'PrometheusVariableQueryEditor-VariableQuery',
    },
    refresh: 2,
    sort: 1,
    hide: 2,
    multi: false,
    includeAll: false,
    regex: '',
    current: {},
    options: [],
  },
}
