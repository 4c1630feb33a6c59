# Training on a card, which its main task reads from what the gate was granted.
job "training" {
  type = "batch"

  group "epoch" {
    task "gate" {
      driver = "psg"
      lifecycle {
        hook = "prestart"
      }
      config {
        kind = "training"
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
        command = "/bin/sh"
        args    = ["-c", "echo card=$NVIDIA_VISIBLE_DEVICES node=$PSG_NODE grant=$PSG_GRANT; exec sleep 3600"]
      }
      template {
        source      = "${NOMAD_ALLOC_DIR}/psg/grant.env"
        destination = "secrets/grant.env"
        env         = true
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
