# What a Nomad client needs to run gated jobs: add it to the client's configuration
# directory, put nomad-driver-psg into plugin_dir, and restart the agent. Running
# tasks go on.

plugin_dir = "/opt/nomad/plugins"

plugin "nomad-driver-psg" {
  config {
    # Each controller's gRPC face; the driver asks whichever leads.
    controllers = ["10.0.0.11:4680", "10.0.0.12:4680", "10.0.0.13:4680"]

    # What gates do when no controller answers: "closed" waits, "open" starts where
    # Nomad put the allocation and reports it later.
    fail       = "closed"
    fail_after = "30s"

    # Keeps reports of such starts when the plugin is restarted.
    state_dir = "/var/lib/psg-driver"

    tls {
      ca   = "/etc/psg/tls/ca.pem"
      cert = "/etc/psg/tls/client.pem"
      key  = "/etc/psg/tls/client-key.pem"
    }
  }
}
