# PSG's agent on every node, as a Nomad system job. It finds the bus by the
# controller's service; with a NATS cluster of your own, name it: -var nats=URLS.

variable "datacenters" {
  type    = list(string)
  default = ["*"]
}

variable "namespace" {
  type    = string
  default = "psg"
}

variable "nats" {
  type        = string
  description = "URLs of the bus, with commas; empty for the controller's own."
  default     = ""
}

variable "command" {
  type    = string
  default = "/usr/local/bin/psg-agent"
}

variable "heal" {
  type        = string
  description = "What to do about noisy neighbours: act, report or off."
  default     = "report"
}

variable "state_dir" {
  type        = string
  description = "Where the journal of what is held back is; empty for /run/psg-agent/NODE, in memory. It has to outlast the allocation."
  default     = ""
}

job "psg-agent" {
  namespace   = var.namespace
  datacenters = var.datacenters
  node_pool   = "all"
  type        = "system"
  priority    = 95

  group "agent" {
    restart {
      attempts = 10
      interval = "10m"
      delay    = "5s"
      mode     = "delay"
    }

    # As root beside the node's tasks: it reads the host's /proc and /sys, and
    # holds control groups back.
    task "agent" {
      driver = "raw_exec"

      config {
        command = var.command
        args = concat([
          "-node", "${node.unique.id}",
          "-nats", "${PSG_NATS}",
          "-heal", var.heal,
        ], var.state_dir != "" ? ["-state-dir", var.state_dir] : [])
      }

      template {
        destination = "local/bus.env"
        env         = true
        change_mode = "restart"
        data        = var.nats != "" ? "PSG_NATS=${var.nats}" : "PSG_NATS={{ range $i, $s := nomadService \"psg-nats\" }}{{ if $i }},{{ end }}nats://{{ $s.Address }}:{{ $s.Port }}{{ end }}"
      }

      kill_timeout = "10s"

      resources {
        cpu        = 50
        memory     = 64
        memory_max = 256
      }
    }
  }
}
