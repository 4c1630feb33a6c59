# A length of time without its unit.
job "wrong-duration" {
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
        command  = "/bin/true"
        deadline = "30"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
