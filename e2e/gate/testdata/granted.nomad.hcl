# A service behind a gate that nothing stands in the way of.
job "granted" {
  group "web" {
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
        cpu    = 20
        memory = 16
      }
    }
  }
}
