# A job on every node.
job "system" {
  type = "system"
  group "agent" {
    update {
      min_healthy_time = "0s"
      health_check     = "task_states"
    }
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
        args    = ["-c", "exec sleep 3600"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
