# A service that starts where and when PSG grants it. The gate runs before the
# group's own tasks, on whatever driver those are, and ends when they may start.
job "gated-service" {
  group "web" {
    count = 1

    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        tier = "gold"
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
        cpu    = 50
        memory = 32
      }
    }
  }
}
