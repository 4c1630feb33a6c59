# Has a card from Nomad's own device plugin; PSG has no part in it.
job "nomads-card" {
  type = "batch"

  group "work" {
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["3600"]
      }
      resources {
        cpu    = 20
        memory = 16
        device "nvidia/gpu" {
          count = 1
        }
      }
    }
  }
}
