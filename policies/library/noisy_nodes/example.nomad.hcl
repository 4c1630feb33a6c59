# Reads its index all day: nodes whose NVMe has slowed down cost it more than others.
job "search-index" {
  type = "service"

  group "app" {
    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        kind = "database"

        labels {
          io = "high"
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
        args    = ["600"]
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
