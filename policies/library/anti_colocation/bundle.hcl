bundle "anti_colocation" {
  version = "1.0.0"
}

policy "anti_colocation" {
  rego = "policy.rego"
  params = {
    # Label whose value names the group that a workload is kept apart from.
    label = "apart_from"
    # Label whose value says which group a workload is of.
    group = "group"
  }
}
