# A job that is dispatched with a payload and meta.
job "parameterized" {
  type = "batch"
  parameterized {
    payload       = "required"
    meta_required = ["who"]
  }
  group "order" {
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
      dispatch_payload {
        file = "payload"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "grep -q cake $NOMAD_TASK_DIR/payload && test $NOMAD_META_who = me"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
