# Can be stopped at any time, and so is drawn to nodes that can be taken away at any time.
job "thumbnails" {
  type = "batch"

  group "app" {
    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        kind        = "batch"
        preemptible = true
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
        memory = 128
      }
    }
  }
}
