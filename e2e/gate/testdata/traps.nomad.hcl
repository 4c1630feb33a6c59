# Run mode: answers SIGHUP, and ends by its own will on kill_signal.
job "traps" {
  type = "batch"

  group "work" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "main" {
      driver       = "psg"
      kill_signal  = "SIGUSR1"
      kill_timeout = "10s"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap \"echo hup\" HUP; trap \"echo usr1; exit 3\" USR1; echo ready; while :; do sleep 0.05; done"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
