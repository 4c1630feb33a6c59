# Run mode: an exit code and both outputs.
job "exits" {
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
        args    = ["-c", "echo to stdout; echo to stderr >&2; exit 7"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
