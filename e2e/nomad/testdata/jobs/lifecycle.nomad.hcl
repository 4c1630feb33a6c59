# Every lifecycle hook.
job "lifecycle" {
  type = "batch"
  group "g" {
    task "gate" {
      driver = "psg"
      lifecycle {
        hook = "prestart"
      }
      config {
        labels = { class = "b" }
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }

    task "before" {
      driver = "raw_exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "sleep 0.2"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "beside" {
      driver = "raw_exec"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 3600"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "sleep 1"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "once-up" {
      driver = "raw_exec"
      lifecycle {
        hook = "poststart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "exit 0"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "after" {
      driver = "raw_exec"
      lifecycle {
        hook = "poststop"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "exit 0"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
