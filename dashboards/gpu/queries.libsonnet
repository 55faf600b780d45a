// Expressions of the GPU dashboard: DCGM series, given the run and rank that own the GPU.
// In: the configuration. Out: named MetricsQL strings.
local names = import '../lib/names.libsonnet';
local m = names.metrics;

function(config)
  // DCGM writes "not supported" as 2^63-8, 2^31-16 or 1.4e14; no gauge shown here reaches 1e9 in earnest.
  local field(name) = '(%s{hw_id!=""} < 1e9)' % m[name];

  // Exactly one owner per GPU: of all ranks that named it in the last minute, the one that spoke last. Two attempts of
  // a run overlap for a minute after a restart, and a plain join would then fail with "duplicate time series".
  local owner = '(topk by (hw_id) (1, tlast_over_time(%s{hw_id!=""}[1m])) * 0 + 1)' % m['train.rank.info'];
  local labels = 'run_id, run_attempt, dist_rank';
  local owned(name) = '%s * on (hw_id) group_left (%s) %s' % [field(name), labels, owner];
  local chosen(expr) = 'label_match(label_match(label_match(%s, "run_id", "$run"), "run_attempt", "$attempt"), "dist_rank", "$rank")' % expr;
  local of(name) = chosen(owned(name));
  local worst(name) = 'topk_max(%d, %s)' % [4 * config.worstRanks, of(name)];
  local idle(name) = '%s unless on (hw_id) %s' % [field(name), owner];
  local newest(name) = 'max by (hw_id, gpu, modelName, hostname) (last_over_time(%s{hw_id!=""}[$__range]) < 1e9)' % m[name];
  {
    // --- totals ---
    gpus: 'count(%s)' % field('DCGM_FI_DEV_GPU_UTIL'),
    gpusOwned: 'count(%s) or vector(0)' % of('DCGM_FI_DEV_GPU_UTIL'),
    gpusIdle: 'count(%s) or vector(0)' % idle('DCGM_FI_DEV_GPU_UTIL'),
    simulated: 'count(last_over_time(%s{gpu_simulated="true"}[$__range])) or 0 * count(last_over_time(%s[$__range]))'
               % [m.DCGM_FI_DEV_GPU_UTIL, m.DCGM_FI_DEV_GPU_UTIL],
    meanUtil: 'avg(%s)' % of('DCGM_FI_DEV_GPU_UTIL'),
    power: 'sum(%s)' % of('DCGM_FI_DEV_POWER_USAGE'),
    hottest: 'max(%s)' % of('DCGM_FI_DEV_GPU_TEMP'),
    faulty: 'count(%s > 0) or vector(0)' % of('DCGM_FI_DEV_XID_ERRORS'),

    // --- per GPU of the chosen ranks ---
    util: worst('DCGM_FI_DEV_GPU_UTIL'),
    smActive: worst('DCGM_FI_PROF_SM_ACTIVE'),
    tensorActive: worst('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE'),
    memoryUsed: worst('DCGM_FI_DEV_FB_USED'),
    temperature: worst('DCGM_FI_DEV_GPU_TEMP'),
    powerPerGpu: worst('DCGM_FI_DEV_POWER_USAGE'),
    // DCGM counts in MHz.
    clock: worst('DCGM_FI_DEV_SM_CLOCK') + ' * 1e6',
    dramActive: worst('DCGM_FI_PROF_DRAM_ACTIVE'),
    xid: 'max by (hw_id, run_id, run_attempt, dist_rank) (%s)' % of('DCGM_FI_DEV_XID_ERRORS'),
    idleUtil: 'topk_max(%d, %s)' % [config.worstRanks, idle('DCGM_FI_DEV_GPU_UTIL')],

    // --- against the training ---
    stepTime: 'quantile(0.5, %s{%s})' % [m['train.step.duration'], config.runSelector],

    // --- newest values, one row per GPU ---
    owners: 'max by (hw_id, run_id, run_attempt, dist_rank) (topk by (hw_id) (1, tlast_over_time(%s{hw_id!=""}[$__range])))' % m['train.rank.info'],
    newestUtil: newest('DCGM_FI_DEV_GPU_UTIL'),
    newestMemory: newest('DCGM_FI_DEV_FB_USED'),
    newestTemperature: newest('DCGM_FI_DEV_GPU_TEMP'),
    newestPower: newest('DCGM_FI_DEV_POWER_USAGE'),
    newestXid: newest('DCGM_FI_DEV_XID_ERRORS'),
  }
