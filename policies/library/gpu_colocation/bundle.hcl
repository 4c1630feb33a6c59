bundle "gpu_colocation" {
  version = "1.0.0"
}

variable "max_inference" {
  type        = number
  default     = 3
  description = "From this many inference workloads on a node, only preemptible training may join."
}

policy "gpu_colocation" {
  rego = "policy.rego"
  params = {
    max_inference = var.max_inference
    protected     = "gold"
  }
}
