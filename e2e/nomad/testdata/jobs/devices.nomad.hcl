# A card from Nomad itself: PSG counts it as taken.
job "devices" {
  group "train" {
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
        device "nvidia/gpu" {
          count = 1
        }
      }
    }
  }
}
