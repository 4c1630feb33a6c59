bundle "compliance" {
  version = "1.0.0"
}

variable "cmdb" {
  type        = string
  default     = "http://127.0.0.1:8600/maintenance.json"
  description = "Where the maintenance windows are: by node name, a list of { start, end } in Unix nanoseconds."
}

policy "compliance" {
  rego = "policy.rego"
  params = {
    # Node meta that lists what a node is certified for, separated by commas.
    certificates = "compliance"
    # By label "residency" of a workload: the regions its data may be in.
    residency = { eu = ["eu-central", "eu-west"] }
  }
}

data "http" "cmdb" {
  url      = var.cmdb
  interval = "60s"
  on_stale = "deny"
}
