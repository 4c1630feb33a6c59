# May use far more memory than it asks for, which tier batch may: where that does not fit into
# what is free, projected use must leave room.
job "crawler" {
  type = "service"

  group "app" {
    task "gate" {
      driver = "psg"

      lifecycle {
        hook = "prestart"
      }

      config {
        tier = "batch"
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
        cpu        = 100
        memory     = 512
        memory_max = 4096
      }
    }
  }
}
