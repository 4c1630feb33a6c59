# psg shim proxy as a Nomad service: people and pipelines point NOMAD_ADDR here. It
# has no rights of its own and keeps nothing, so that any number may run.

variable "datacenters" {
  type    = list(string)
  default = ["*"]
}

variable "namespace" {
  type    = string
  default = "psg"
}

variable "places" {
  type        = list(string)
  description = "Namespaces in which PSG places jobs; all when empty."
  default     = []
}

variable "count" {
  type    = number
  default = 2
}

variable "command" {
  type    = string
  default = "/usr/local/bin/psg"
}

variable "nomad_address" {
  type    = string
  default = "http://127.0.0.1:4646"
}

job "psg-proxy" {
  namespace   = var.namespace
  datacenters = var.datacenters
  type        = "service"
  priority    = 90

  group "proxy" {
    count = var.count

    constraint {
      distinct_hosts = true
    }

    network {
      mode = "host"
      port "nomad" {
        static = 4682
      }
    }

    service {
      name     = "psg-proxy"
      provider = "nomad"
      port     = "nomad"
      check {
        type     = "http"
        path     = "/v1/status/leader"
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "proxy" {
      driver = "raw_exec"

      config {
        command = var.command
        args = [
          "shim", "proxy",
          "-listen", "${NOMAD_ADDR_nomad}",
          "-namespaces", join(",", var.places),
          "-log-json",
        ]
      }

      env {
        NOMAD_ADDR = var.nomad_address
      }

      template {
        destination = "local/controllers.env"
        env         = true
        change_mode = "restart"
        data        = "PSG_ADDR={{ range $i, $s := nomadService \"psg-http\" }}{{ if $i }},{{ end }}http://{{ $s.Address }}:{{ $s.Port }}{{ end }}"
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
