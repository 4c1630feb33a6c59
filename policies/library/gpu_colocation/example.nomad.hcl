# Training on one card: nodes with three or more inference workloads do not take it, for it is
# not preemptible.
job "finetune" {
  type = "batch"

  group "app" {
    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        kind        = "training"
        preemptible = false

        gpu {
          count = 1
        }
      }

      logs {
        disabled = true
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }

    task "main" {
      driver = "raw_exec"

      config {
        command = "/bin/sleep"
        args    = ["600"]
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
