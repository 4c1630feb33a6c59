# PSG's controller as a Nomad service. It is placed by Nomad alone: a job with a
# psg task would wait for the very controller that it is.
#
#   nomad namespace apply psg
#   nomad acl policy apply -namespace psg -job psg-controller psg-controller acl-policy.hcl
#   nomad job run -var node=NAME controller.nomad.hcl
#
# One controller keeps the ledger in data_dir, on one node. With -var nats=URLS the
# ledger is on a NATS cluster of yours: then count may be 2 or 3, of which one
# leads, and node may stay open.

variable "datacenters" {
  type    = list(string)
  default = ["*"]
}

variable "namespace" {
  type        = string
  description = "Where this job itself runs."
  default     = "psg"
}

variable "places" {
  type        = list(string)
  description = "Namespaces in which PSG places jobs; all when empty."
  default     = []
}

variable "node" {
  type        = string
  description = "Name of the node that keeps the ledger; needed without nats."
  default     = ""
}

variable "count" {
  type    = number
  default = 1
}

variable "nats" {
  type        = string
  description = "URLs of a NATS cluster, with commas; empty for the controller's own."
  default     = ""
}

variable "command" {
  type    = string
  default = "/usr/local/bin/psg"
}

variable "bundle" {
  type        = string
  description = "Policy bundle, on each node that may run a controller."
  default     = "/etc/psg/policies"
}

variable "data_dir" {
  type    = string
  default = "/var/lib/psg"
}

variable "nomad_address" {
  type        = string
  description = "Nomad's HTTP API as the controller reaches it."
  default     = "http://127.0.0.1:4646"
}

variable "ports" {
  type    = object({ grpc = number, http = number, nats = number })
  default = { grpc = 4680, http = 4681, nats = 4222 }
}

job "psg-controller" {
  namespace   = var.namespace
  datacenters = var.datacenters
  type        = "service"
  priority    = 90

  group "controller" {
    count = var.count

    constraint {
      distinct_hosts = true
    }

    dynamic "constraint" {
      for_each = var.node == "" ? [] : [var.node]
      content {
        attribute = "${node.unique.name}"
        value     = constraint.value
      }
    }

    network {
      mode = "host"
      port "grpc" {
        static = var.ports.grpc
      }
      port "http" {
        static = var.ports.http
      }
      port "nats" {
        static = var.ports.nats
      }
    }

    # One after the other: another controller leads within seconds, and gates wait.
    update {
      max_parallel     = 1
      health_check     = "checks"
      min_healthy_time = "5s"
      healthy_deadline = "2m"
    }

    restart {
      attempts = 10
      interval = "10m"
      delay    = "5s"
      mode     = "delay"
    }

    service {
      name     = "psg-grpc"
      provider = "nomad"
      port     = "grpc"
    }

    service {
      name     = "psg-http"
      provider = "nomad"
      port     = "http"
      check {
        type     = "http"
        path     = "/v1/health"
        interval = "5s"
        timeout  = "2s"
      }
    }

    service {
      name     = "psg-nats"
      provider = "nomad"
      port     = "nats"
    }

    task "controller" {
      driver = "raw_exec"

      # The token that the task has as itself. Nomad renews the file, and the
      # controller reads it for each request.
      identity {
        env  = false
        file = true
      }

      config {
        command = var.command
        args = concat(
          [
            "controller",
            "-name", "${NOMAD_ALLOC_ID}",
            "-bundle", var.bundle,
            "-grpc", "${NOMAD_ADDR_grpc}",
            "-http", "${NOMAD_ADDR_http}",
            "-nomad-token-file", "${NOMAD_SECRETS_DIR}/nomad_token",
            "-namespaces", join(",", var.places),
            "-log-json",
          ],
          var.nats == "" ? ["-data-dir", var.data_dir, "-nats-listen", "${NOMAD_ADDR_nats}"] : ["-nats", var.nats, "-nats-replicas", "3"],
        )
      }

      env {
        NOMAD_ADDR = var.nomad_address
      }

      # SIGHUP loads the policy bundle anew: nomad alloc signal -s SIGHUP ALLOC.
      kill_signal  = "SIGTERM"
      kill_timeout = "10s"

      resources {
        cpu        = 500
        memory     = 512
        memory_max = 2048
      }
    }
  }
}
