bundle "expensive_nodes" {
  version = "1.0.0"
}

policy "expensive_nodes" {
  rego = "policy.rego"
  params = {
    # By node class: points that it loses. Classes that are not here lose none.
    cost = { gpu-large = 50, highmem = 20 }
    # Kinds of workloads that the expensive nodes are for.
    exempt = ["training", "inference"]
  }
}
