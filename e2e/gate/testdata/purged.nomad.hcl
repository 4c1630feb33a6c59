# A service of three, to be purged.
job "purged" {
  group "web" {
    count = 3
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
