bundle "noisy_nodes" {
  version = "1.1.0"
}

policy "noisy_nodes" {
  rego = "policy.rego"
  params = {
    steal_percent     = 5  # CPU steal above which a node loses points
    steal_critical    = 30 # and above which it takes nothing
    loss_percent      = 0.5
    nvme_slowdown     = 1.5
    points_per_steal  = 4
    points_per_loss   = 100
    points_for_nvme   = 10
    points_for_nvme_io = 30 # for workloads labelled io=high
    points_for_noisy  = 50 # where the agent sees a neighbour harm another, or holds one back
  }
}
