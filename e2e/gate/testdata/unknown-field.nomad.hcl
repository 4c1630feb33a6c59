# A misspelt field.
job "unknown-field" {
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
        comand = "/bin/true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
