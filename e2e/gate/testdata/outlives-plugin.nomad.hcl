# Run mode: ends the moment the process that alloc/plugin names is no more.
job "outlives-plugin" {
  type = "batch"

  group "work" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "main" {
      driver = "psg"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          echo run
          until test -s $NOMAD_ALLOC_DIR/plugin; do sleep 0.05; done
          read -r plugin <$NOMAD_ALLOC_DIR/plugin
          echo watching
          while kill -0 $plugin; do :; done
          exit 7
        EOT
        ]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
