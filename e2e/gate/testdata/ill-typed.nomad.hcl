# A word where true or false belongs.
job "ill-typed" {
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
        command     = "/bin/true"
        preemptible = "perhaps"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
