# Run mode: the psg driver itself starts the command once PSG grants it.
job "run" {
  type = "batch"

  group "report" {
    task "main" {
      driver = "psg"

      config {
        command  = "/bin/sleep"
        args     = ["600"]
        tenant   = "finance"
        deadline = "30s"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
