# Two instances, which succeed at their second try.
job "batch" {
  type = "batch"
  group "work" {
    count = 2
    restart {
      attempts = 2
      delay    = "1s"
      interval = "1h"
      mode     = "fail"
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
        args    = ["-c", "test -e $NOMAD_ALLOC_DIR/again || { touch $NOMAD_ALLOC_DIR/again; exit 3; }"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
