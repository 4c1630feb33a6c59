bundle "memory_overcommit" {
  version = "1.0.0"
}

policy "memory_overcommit" {
  rego = "policy.rego"
  params = {
    # Tiers whose workloads may share memory that is promised more than once.
    tiers = ["bronze", "batch"]
    # Per cent of a node's memory that its projected use may reach, with overcommit.
    headroom_percent = 85
  }
}
