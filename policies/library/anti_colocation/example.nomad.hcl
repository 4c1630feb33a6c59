# A replica that shares no node with anything labelled group=ledger, of whatever job: not
# even with another instance of itself.
job "ledger-replica" {
  type = "service"

  group "app" {
    count = 3

    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        kind = "database"

        labels {
          apart_from = "ledger"
          group      = "ledger"
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
        memory = 128
      }
    }
  }
}
