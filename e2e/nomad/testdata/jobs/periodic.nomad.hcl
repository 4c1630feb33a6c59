# A job that a schedule, or an operator, starts.
job "periodic" {
  type = "batch"
  periodic {
    crons            = ["0 0 1 1 *"]
    prohibit_overlap = true
  }
  group "report" {
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
        args    = ["-c", "exit 0"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
