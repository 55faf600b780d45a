// Expressions of the Layers dashboard. In: the configuration. Out: named MetricsQL strings.
// Replicas hold the same gradient after the reduction, so the maximum over ranks is that of the layer.
local names = import '../lib/names.libsonnet';
local m = names.metrics;

function(config)
  local norm = '%s{%s, tensor_kind="grad", stat="norm"}' % [m['train.layer'], config.runSelector];
  local layer = 'run_id, run_attempt, layer_index, layer_name';
  local over(function_) = 'max by (layer_index, layer_name) (%s(%s[$__range]))' % [function_, norm];
  {
    heat: 'sort_by_label_numeric(log10(max by (layer_index, layer_name) (%s) > 0), "layer_index")' % norm,
    movers: 'sort_desc(topk(%d, %s / (%s > 0)))' % [config.worstLayers, over('last_over_time'), over('avg_over_time')],

    last: over('last_over_time'),
    mean: over('avg_over_time'),
    largest: over('max_over_time'),

    layers: 'count(count by (layer_name) (last_over_time(%s[$__range])))' % norm,
    series: 'count(last_over_time(%s{%s}[$__range]))' % [m['train.layer'], config.runSelector],
    zeros: 'count(%s == 0) or vector(0)' % over('last_over_time'),
    largestLayer: 'max(%s)' % norm,

    // The square root of the sum of squares over all layers is the norm of the whole gradient.
    fromLayers: 'sqrt(sum by (run_id, run_attempt) ((max by (%s) (%s)) ^ 2))' % [layer, norm],
    beforeClipping: 'max by (run_id, run_attempt) (%s{%s})' % [m['train.grad.norm'], config.runSelector],
    afterClipping: 'max by (run_id, run_attempt) (%s{%s})' % [m['train.grad.norm.clipped'], config.runSelector],
  }
