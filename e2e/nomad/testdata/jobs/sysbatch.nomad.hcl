# A job that runs once on every node.
job "sysbatch" {
  type = "sysbatch"
  group "sweep" {
    task "gate" {
      driver = "psg"
      lifecycle {
        hook = "prestart"
      }
      config {
        kind = "service"
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
        args    = ["-c", "exit 0"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
