// Layers: which part of the model moves, vanishes or explodes.
local annotations = import '../run/annotations.libsonnet';
local g = import '../lib/g.libsonnet';
local queries = import 'queries.libsonnet';
local vars = import 'variables.libsonnet';

local attempt = '{{run_id}} #{{run_attempt}}';

function(config)
  local q = queries(config);
  local p = g.panel;
  local stat(title, description, expr, unit='none') = p.stat(title, description, [g.target.range(expr, title)], unit) + p.size(6, 4) + p.every('5s');

  g.dashboard(
    config,
    'glideslope-layers',
    [vars.datasource, vars.run, vars.attempt],
    annotations(config),
    [
      stat('Layers', 'Parameters whose gradient was measured in this time range.', q.layers) + p.decimals(0),
      stat('Series', 'Series that the layers of the chosen runs hold, all ranks and statistics.', q.series, 'locale') + p.decimals(0),
      stat('Largest layer norm', 'Largest gradient norm of any layer at the newest measurement.', q.largestLayer, 'short') + p.decimals(3) + p.sparkline,
      stat('Layers without gradient', 'Layers whose newest gradient norm is exactly zero: frozen or dead.', q.zeros) + p.decimals(0)
      + p.thresholds([['green', null], ['orange', 1]]),

      p.heatmap('Gradient norm by layer', 'log10 of the gradient norm: one row per layer in the order of the model, one column per interval. -2 means 0.01.',
                [g.target.range(q.heat, '{{layer_index}} {{layer_name}}')]) + p.size(24, 14) + p.every('5s'),

      p.bars('Top movers', 'Newest gradient norm over the mean of the same layer in this time range: 2 means twice its usual size.',
             [g.target.instant(q.movers, '{{layer_index}} {{layer_name}}')]) + p.size(10, 11) + p.decimals(2) + p.bounds(min=0) + p.every('5s')
      + p.thresholds([['blue', null], ['orange', 3], ['red', 10]]),
      p.table('Layers now', 'Gradient norm of each layer: newest, mean and largest in this time range.', [
        g.target.rows(q.last),
        g.target.rows(q.mean),
        g.target.rows(q.largest),
      ], 'short') + p.size(14, 11) + p.every('5s')
      + p.columns([['layer_index', 'Index'], ['layer_name', 'Layer'], ['Value #A', 'Newest'], ['Value #B', 'Mean'], ['Value #C', 'Largest']], ['Time'])
      + p.sortedBy('Newest')
      + p.overrides([
        g.override.named('Index', { 'custom.width': 70 }),
        g.override.matching('/Newest|Mean|Largest/', { 'custom.width': 110, decimals: 4 }),
      ]),

      p.timeseries('Global norm check', 'Norm of the whole gradient as clipping saw it, and as the layers add up to it: a gap means layers are missing or were measured at another moment.', [
        g.target.range(q.fromLayers, attempt + ' from layers'),
        g.target.range(q.beforeClipping, attempt + ' before clipping'),
        g.target.range(q.afterClipping, attempt + ' after clipping'),
      ]) + p.size(24, 8) + p.every('5s') + p.logarithmic,
    ]
  )
