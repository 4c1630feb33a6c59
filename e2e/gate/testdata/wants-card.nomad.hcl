# Wants a card.
job "wants-card" {
  type = "batch"

  group "work" {
    task "gate" {
      driver = "psg"
      lifecycle {
        hook = "prestart"
      }
      config {
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
        args    = ["3600"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
