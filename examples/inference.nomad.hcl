# Three instances of inference, a quarter of a card each: they share one. Where
# all of them run, the gpu_colocation policy lets no GPU training in.
job "inference" {
  group "model" {
    count = 3

    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        kind = "inference"

        labels = {
          model = "ranker"
        }

        gpu {
          share = 250
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
        args    = ["3600"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
