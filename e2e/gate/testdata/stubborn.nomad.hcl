# Run mode: ignores every signal that it can, as does its child.
job "stubborn" {
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
      kill_signal  = "SIGTERM"
      kill_timeout = "1s"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap \"\" TERM INT; echo ready; sleep 600 & wait; wait"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
