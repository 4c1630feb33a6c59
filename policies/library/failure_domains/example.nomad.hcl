# Three instances in three failure domains, none beside a workload of tenant batch.
job "checkout" {
  type = "service"

  group "app" {
    count = 3

    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        tenant = "shop"
        tier   = "gold"
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
