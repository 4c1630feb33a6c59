# A gated group beside one that Nomad places by itself.
job "multi-group" {
  group "web" {
    count = 2
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
        args    = ["-c", "exec sleep 3600"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
  group "store" {
    update {
      min_healthy_time = "0s"
      health_check     = "task_states"
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
