# A deployment by canary, which the test promotes.
job "canary" {
  meta {
    release = "1"
  }
  group "web" {
    count = 3
    update {
      canary           = 1
      max_parallel     = 2
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
}
