# Four whole cards on one NVLink island: while others hold a part of one, PSG
# queues it and says what is missing.
job "big" {
  type = "batch"

  group "simulation" {
    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        gpu {
          count  = 4
          linked = true
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
        cpu    = 50
        memory = 32
      }
    }
  }
}
