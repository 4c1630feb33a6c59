# Card payments of European customers: certified nodes of two regions, and none that is in a
# maintenance window.
job "payments" {
  type = "service"

  group "app" {
    count = 2

    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        tier = "gold"

        labels {
          compliance = "pci"
          residency  = "eu"
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
