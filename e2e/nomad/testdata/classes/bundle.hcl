bundle "classes" {
  version = "1.0.0"
}

policy "classes" {
  rego = "policy.rego"
}
