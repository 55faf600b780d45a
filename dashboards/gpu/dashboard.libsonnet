// GPU: what the hardware does, under the name of the run and rank that it works for.
local annotations = import '../run/annotations.libsonnet';
local g = import '../lib/g.libsonnet';
local queries = import 'queries.libsonnet';
local vars = import 'variables.libsonnet';

local owner = '{{run_id}} #{{run_attempt}} rank {{dist_rank}}';

function(config)
  local q = queries(config);
  local p = g.panel;
  local stat(title, description, expr, unit='none') = p.stat(title, description, [g.target.range(expr, title)], unit) + p.every('5s');
  local line(title, description, expr, unit, legend=owner) =
    p.timeseries(title, description, [g.target.range(expr, legend)], unit) + p.every('5s') + p.size(8, 8);

  g.dashboard(
    config,
    'glideslope-gpu',
    [vars.datasource, vars.run, vars.attempt, vars.rank],
    annotations(config),
    [
      stat('GPUs', 'GPUs that an exporter reports.', q.gpus) + p.decimals(0),
      stat('In a run', 'GPUs whose UUID a rank of the chosen runs named in the last minute.', q.gpusOwned) + p.decimals(0),
      stat('Without a run', 'GPUs that no rank named in the last minute.', q.gpusIdle) + p.decimals(0) + p.thresholds([['green', null], ['orange', 1]]),
      stat('Utilization', 'Mean over the GPUs of the chosen ranks.', q.meanUtil, 'percent') + p.decimals(0) + p.sparkline,
      stat('Power', 'Sum over the GPUs of the chosen ranks.', q.power, 'watt') + p.decimals(1) + p.sparkline,
      stat('Hottest', 'Highest temperature of the chosen ranks.', q.hottest, 'celsius') + p.decimals(0)
      + p.thresholds([['green', null], ['orange', 80], ['red', 90]]),
      stat('With XID', 'GPUs of the chosen ranks whose last XID error is not 0. It stays until the driver is reloaded.', q.faulty) + p.decimals(0)
      + p.thresholds([['green', null], ['red', 1]]),
      stat('Source', 'Whether the numbers come from real GPUs or from a made-up page of the demonstration.', q.simulated)
      + {
        fieldConfig+: {
          defaults+: {
            mappings: [
              { type: 'value', options: { '0': { text: 'real', color: 'green', index: 0 } } },
              { type: 'range', options: { from: 1, to: 1e9, result: { text: 'simulated', color: 'orange', index: 1 } } },
            ],
          },
        },
      },

      p.row('Work'),
      line('Utilization', 'Share of time in which any kernel ran. It says 100 % in a hang that spins, too: compare it with tensor activity.', q.util, 'percent')
      + p.bounds(min=0, max=100),
      line('SM active', 'Share of cycles in which a multiprocessor had at least one warp.', q.smActive, 'percentunit') + p.bounds(min=0, max=1),
      line('Tensor active', 'Share of cycles in which a tensor pipe was busy: the useful work of a training.', q.tensorActive, 'percentunit') + p.bounds(min=0, max=1),
      p.timeseries('Utilization and step time', 'Mean utilization of the GPUs against the median step time: they should move in opposite directions.', [
        g.target.range(q.meanUtil, 'GPU utilization'),
        g.target.range(q.stepTime, 'step time'),
      ], 'percent') + p.every('5s') + p.size(16, 8) + p.bounds(min=0)
      + p.overrides([
        g.override.named('GPU utilization', { color: { mode: 'fixed', fixedColor: 'green' }, max: 100 }),
        g.override.named('step time', { unit: 's', color: { mode: 'fixed', fixedColor: 'orange' }, 'custom.axisPlacement': 'right' }),
      ]),
      line('Memory bandwidth', 'Share of cycles in which the memory interface was busy.', q.dramActive, 'percentunit') + p.bounds(min=0, max=1),

      p.row('Hardware'),
      line('Memory used', 'Framebuffer in use. PyTorch keeps what it once took: see device memory on the Run dashboard for what tensors hold.', q.memoryUsed, 'mbytes') + p.bounds(min=0),
      line('Temperature', 'GPU temperature.', q.temperature, 'celsius'),
      line('Power', 'Power draw.', q.powerPerGpu, 'watt') + p.bounds(min=0),
      line('SM clock', 'Clock of the multiprocessors: a drop under load is throttling.', q.clock, 'hertz'),
      line('Last XID error', 'Last error code of the driver, 0 for none. It is sticky, and 45 overwrites the cause: look in the kernel log for the first one.',
           q.xid, 'none', owner + ' {{hw_id}}') + p.asSteps + p.counts,
      line('GPUs without a run', 'GPUs that no rank named in the last minute, the busiest %d; and how many there are.' % config.worstRanks,
           q.idleUtil, 'percent', '{{hw_id}}') + p.bounds(min=0),

      p.row('One line per GPU'),
      p.table('GPUs', 'Newest value of each GPU in this time range, and the rank that used it last.', [
        g.target.rows(q.owners),
        g.target.rows(q.newestUtil),
        g.target.rows(q.newestMemory),
        g.target.rows(q.newestTemperature),
        g.target.rows(q.newestPower),
        g.target.rows(q.newestXid),
      ]) + p.size(24, 8) + p.every('5s')
      + p.columns([
        ['hostname', 'Host'],
        ['gpu', 'GPU'],
        ['modelName', 'Model'],
        ['hw_id', 'UUID'],
        ['run_id', 'Run'],
        ['run_attempt', 'Attempt'],
        ['dist_rank', 'Rank'],
        ['Value #B', 'Utilization'],
        ['Value #C', 'Memory'],
        ['Value #D', 'Temperature'],
        ['Value #E', 'Power'],
        ['Value #F', 'XID'],
      ], ['Time', 'Value #A'])
      + p.overrides([
        g.override.named('Utilization', { unit: 'percent', decimals: 0 }),
        g.override.named('Memory', { unit: 'mbytes', decimals: 1 }),
        g.override.named('Temperature', { unit: 'celsius', decimals: 0 }),
        g.override.named('Power', { unit: 'watt', decimals: 0 }),
        g.override.named('XID', { decimals: 0 }),
      ])
      + p.widths({
        Host: 110,
        GPU: 55,
        Model: 200,
        UUID: 345,
        Attempt: 80,
        Rank: 60,
        Utilization: 100,
        Memory: 100,
        Temperature: 110,
        Power: 80,
        XID: 60,
      }),
    ]
  )
