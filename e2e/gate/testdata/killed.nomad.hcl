# Run mode: death by a signal.
job "killed" {
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
      driver = "psg"
      config {
        command = "/bin/sh"
        args    = ["-c", "kill -KILL $$"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
