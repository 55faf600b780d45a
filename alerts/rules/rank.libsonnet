// One alert per run, never one per rank: the rank that stands for it is picked here.
{
  labels:: 'run_id, run_attempt, dist_rank',

  // The series of the run's rank with the largest `score`, of those ranks that are `bad`. Ranks with equal scores keep
  // one answer, the lowest rank: a label that changed from one evaluation to the next would be a new alert each time.
  worst(score, bad)::
    'topk by (run_id, run_attempt) (1, (%s) - label_value(%s, "dist_rank") / 1e6 and on (%s) %s)'
    % [score, score, self.labels, bad],
}
