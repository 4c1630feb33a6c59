bundle "failure_domains" {
  version = "1.0.0"
}

policy "failure_domains" {
  rego = "policy.rego"
  params = {
    # By service (namespace/job): in how many failure domains it must run.
    min_domains = { "default/checkout" = 3 }
    # By service: tenants it never shares a node with.
    never_beside = { "default/checkout" = ["batch"] }
  }
}
