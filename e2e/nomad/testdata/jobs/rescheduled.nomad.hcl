# Fails wherever it runs: Nomad tries once more, then gives up.
job "rescheduled" {
  type = "batch"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts       = 1
      interval       = "1h"
      delay          = "5s"
      delay_function = "constant"
      unlimited      = false
    }

    task "gate" {
      driver = "psg"
      lifecycle {
        hook = "prestart"
      }
      config {
        labels = { class = "b" }
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }

    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exit 7"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
