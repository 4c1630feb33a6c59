bundle "spot_nodes" {
  version = "1.0.0"
}

policy "spot_nodes" {
  rego = "policy.rego"
  params = {
    # Node meta, and its value, that says a node may be taken away at any time.
    meta  = "lifecycle"
    value = "spot"
    # Points that preemptible workloads give such nodes.
    points = 10
  }
}
