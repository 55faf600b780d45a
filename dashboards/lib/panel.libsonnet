// Panels: one function per type, plus small mixins that are added to a panel with `+`.
// Options follow the types of Grafana 11 to 13. `pluginVersion` is set everywhere because Grafana migrates
// xychart options that lack it as if they were of version 10.
local override = import 'override.libsonnet';

{
  local panel = self,

  base(type, title, description, targets, unit):: {
    type: type,
    title: title,
    description: description,
    pluginVersion: '11.0.0',
    datasource: targets[0].datasource,
    targets: [targets[i] { refId: std.char(65 + i) } for i in std.range(0, std.length(targets) - 1)],
    gridPos: { h: 8, w: 12, x: 0, y: 0 },
    interval: '1s',
    options: {},
    fieldConfig: {
      defaults: { unit: unit, color: { mode: 'palette-classic' }, custom: {} },
      overrides: [],
    },
  },

  // --- types ---

  timeseries(title, description, targets, unit='short')::
    panel.base('timeseries', title, description, targets, unit) + {
      options: {
        legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
        tooltip: { mode: 'multi', sort: 'desc' },
      },
      fieldConfig+: {
        defaults+: {
          custom: {
            drawStyle: 'line',
            lineInterpolation: 'linear',
            lineWidth: 1.5,
            fillOpacity: 0,
            showPoints: 'never',
            // A step that takes longer than the query interval is no gap; a minute of silence is one.
            spanNulls: 60000,
            axisPlacement: 'auto',
          },
        },
      },
    },

  // One curve per run and attempt over the training step: `y` and `x` are table targets whose rows share
  // labels and evaluation times, so `merge` pairs them. Columns keep the names `Value #A` and `Value #B`:
  // renaming them before partitionByValues breaks the legend.
  byStep(title, description, y, x, unit='short')::
    panel.base('xychart', title, description, [y, x], unit) + {
      options: {
        mapping: 'auto',
        series: [{
          x: { matcher: { id: 'byName', options: 'Value #B' } },
          y: { matcher: { id: 'byName', options: 'Value #A' } },
        }],
        legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
        tooltip: { mode: 'single', sort: 'none' },
      },
      fieldConfig+: {
        defaults+: { custom: { show: 'lines', lineWidth: 1.5, pointSize: { fixed: 3 } } },
        overrides: [override.named('Value #B', { displayName: 'step', unit: 'locale', decimals: 0 })],
      },
      transformations: [
        { id: 'merge', options: {} },
        {
          id: 'partitionByValues',
          options: { fields: ['segment'], keepFields: false, naming: { asLabels: false } },
        },
      ],
    },

  stat(title, description, targets, unit='short')::
    panel.base('stat', title, description, targets, unit) + {
      gridPos+: { w: 3, h: 4 },
      options: {
        colorMode: 'value',
        graphMode: 'none',
        justifyMode: 'auto',
        orientation: 'auto',
        textMode: 'value',
        wideLayout: true,
        showPercentChange: false,
        percentChangeColorMode: 'standard',
        reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      },
      fieldConfig+: { defaults+: { color: { mode: 'thresholds' }, thresholds: panel.steps([['text', null]]) } },
    },

  bars(title, description, targets, unit='short')::
    panel.base('bargauge', title, description, targets, unit) + {
      options: {
        displayMode: 'basic',
        orientation: 'horizontal',
        showUnfilled: true,
        valueMode: 'color',
        namePlacement: 'auto',
        minVizHeight: 16,
        minVizWidth: 8,
        maxVizHeight: 28,
        sizing: 'auto',
        legend: { displayMode: 'list', placement: 'bottom', showLegend: false, calcs: [] },
        reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      },
      fieldConfig+: { defaults+: { color: { mode: 'thresholds' }, thresholds: panel.steps([['blue', null]]) } },
    },

  table(title, description, targets, unit='none')::
    panel.base('table', title, description, targets, unit) + {
      options: { showHeader: true, cellHeight: 'sm', sortBy: [] },
      fieldConfig+: {
        defaults+: {
          color: { mode: 'thresholds' },
          thresholds: panel.steps([['text', null]]),
          custom: { align: 'auto', cellOptions: { type: 'auto' }, filterable: false },
        },
      },
    },

  // One row per series, colour by value. The order of the rows is the order of the series in the answer.
  heatmap(title, description, targets, unit='short')::
    panel.base('heatmap', title, description, targets, unit) + {
      options: {
        calculate: false,
        cellGap: 0,
        color: { mode: 'scheme', scheme: 'Turbo', steps: 64, reverse: false, exponent: 1, fill: 'dark-orange' },
        exemplars: { color: 'rgba(255,0,255,0.7)' },
        legend: { show: true },
        rowsFrame: { layout: 'auto' },
        showValue: 'never',
        tooltip: { mode: 'single', yHistogram: false },
        yAxis: { axisPlacement: 'left', reverse: false },
      },
      fieldConfig+: {
        defaults+: {
          custom: {
            scaleDistribution: { type: 'linear' },
            hideFrom: { legend: false, tooltip: false, viz: false },
          },
        },
      },
    },

  // Colour bands by value mapping: `states` is {"0": ["DOWN", "red"], ...}.
  timeline(title, description, targets, states)::
    panel.base('state-timeline', title, description, targets, 'none') + {
      options: {
        alignValue: 'left',
        mergeValues: true,
        perPage: 32,
        rowHeight: 0.85,
        showValue: 'never',
        legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
        tooltip: { mode: 'single', sort: 'none' },
      },
      fieldConfig+: {
        defaults+: {
          color: { mode: 'thresholds' },
          custom: { lineWidth: 0, fillOpacity: 80 },
          mappings: panel.mapping(states),
          thresholds: panel.steps([['text', null]]),
        },
      },
    },

  logs(title, description, targets)::
    panel.base('logs', title, description, targets, 'none') + {
      options: {
        showTime: true,
        showLabels: false,
        showCommonLabels: false,
        wrapLogMessage: true,
        prettifyLogMessage: false,
        enableLogDetails: true,
        dedupStrategy: 'none',
        sortOrder: 'Descending',
      },
    },

  row(title):: { type: 'row', title: title, collapsed: false, panels: [], gridPos: { h: 1, w: 24, x: 0, y: 0 } },

  // --- mixins ---

  size(w, h):: { gridPos+: { w: w, h: h } },

  // Smallest query interval: what is scraped every 10 s needs no point per second.
  every(interval):: { interval: interval },

  decimals(n):: { fieldConfig+: { defaults+: { decimals: n } } },

  bounds(min=null, max=null):: {
    fieldConfig+: { defaults+: { [if min != null then 'min']: min, [if max != null then 'max']: max } },
  },

  // `steps([['green', null], ['red', 80]])`: the first colour holds below every value.
  steps(list):: { mode: 'absolute', steps: [{ color: step[0], value: step[1] } for step in list] },
  thresholds(list):: { fieldConfig+: { defaults+: { thresholds: panel.steps(list) } } },
  thresholdLine(value):: {
    fieldConfig+: {
      defaults+: {
        thresholds: panel.steps([['transparent', null], ['red', value]]),
        custom+: { thresholdsStyle: { mode: 'dashed' } },
      },
    },
  },

  mapping(states):: [{
    type: 'value',
    options: {
      [key]: { text: states[key][0], color: states[key][1], index: std.find(key, std.objectFields(states))[0] }
      for key in std.objectFields(states)
    },
  }],
  mapped(states):: { fieldConfig+: { defaults+: { mappings: panel.mapping(states) } } },
  noValue(text):: { fieldConfig+: { defaults+: { noValue: text } } },

  fill(opacity):: { fieldConfig+: { defaults+: { custom+: { fillOpacity: opacity } } } },
  stacked:: { fieldConfig+: { defaults+: { custom+: { fillOpacity: 70, lineWidth: 0, stacking: { group: 'A', mode: 'normal' } } } } },
  asBars:: { fieldConfig+: { defaults+: { custom+: { drawStyle: 'bars', fillOpacity: 60, lineWidth: 0 } } } },
  // Whole numbers; an axis of zeros ends at 1 instead of 100.
  counts:: { fieldConfig+: { defaults+: { decimals: 0, min: 0, custom+: { axisSoftMax: 1 } } } },
  asSteps:: { fieldConfig+: { defaults+: { custom+: { lineInterpolation: 'stepAfter' } } } },
  logarithmic:: { fieldConfig+: { defaults+: { custom+: { scaleDistribution: { type: 'log', log: 10 } } } } },
  sparkline:: { options+: { graphMode: 'area' } },
  named:: { options+: { textMode: 'value_and_name' } },
  legendTable(calcs):: { options+: { legend+: { displayMode: 'table', placement: 'right', calcs: calcs } } },

  // Columns of a listing made of table targets: joined on their labels, ordered and titled by `columns`, a list of
  // [field, title]; every other field is hidden.
  columns(list, hidden):: {
    transformations: [
      { id: 'merge', options: {} },
      {
        id: 'organize',
        options: {
          excludeByName: { [name]: true for name in hidden },
          indexByName: { [list[i][0]]: i for i in std.range(0, std.length(list) - 1) },
          renameByName: { [column[0]]: column[1] for column in list },
        },
      },
    ],
  },
  sortedBy(title, desc=true):: { options+: { sortBy: [{ displayName: title, desc: desc }] } },
  widths(map):: { fieldConfig+: { overrides+: [override.named(name, { 'custom.width': map[name] }) for name in std.objectFields(map)] } },
  overrides(list):: { fieldConfig+: { overrides+: list } },
}
