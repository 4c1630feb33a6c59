# Training on a card. Beside three instances of inference the gpu_colocation
# policy denies it; `preemptible = true` would let it in. Nomad is not asked for
# the card: PSG accounts for cards and hands this one out.
job "training" {
  type = "batch"

  group "epoch" {
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
        cpu    = 50
        memory = 32
      }
    }
  }
}
