package nomad_test

import (
	"errors"
	"os"
	"path/filepath"

	e2e "github.com/psgrid/psg/e2e/cluster"
)

// serverConfig is that of a server among peers.
func serverConfig(l layout, peers []string) map[string]any {
	server := map[string]any{
		"enabled": true, "bootstrap_expect": l.servers, "raft_multiplier": 1,
		"server_join":              map[string]any{"retry_join": peers, "retry_interval": "1s"},
		"default_scheduler_config": map[string]any{"memory_oversubscription_enabled": true},
	}
	server["heartbeat_grace"] = "60s" // a client that a busy machine holds up is not lost
	if l.quick {
		server["min_heartbeat_ttl"], server["heartbeat_grace"] = "2s", "3s"
	}
	config := map[string]any{"server": server}
	if l.secure {
		config["acl"] = map[string]any{"enabled": true, "token_min_expiration_ttl": "1s"}
	}
	return config
}

// clientConfig is that of a client with PSG's driver and a host volume.
func (r *region) clientConfig(n node, plugins string) map[string]any {
	var servers []string
	for _, s := range r.servers {
		servers = append(servers, s.RPC)
	}
	plugin := map[string]any{"controllers": []string{r.controller.GRPC}}
	if r.layout.quick {
		plugin["fail"], plugin["fail_after"] = "open", openAfter.String()
	}
	config := map[string]any{
		"client": map[string]any{
			"enabled": true, "servers": servers,
			"cpu_total_compute": n.cpu, "memory_total_mb": n.memory, "node_class": n.class,
			"host_volume": map[string]any{"shared": map[string]any{"path": r.volume()}},
			"options":     map[string]string{"fingerprint.denylist": "env_aws,env_azure,env_gce,env_digitalocean,consul,vault,cni,bridge"},
		},
		"plugin_dir": plugins,
		"plugin": []any{
			map[string]any{"raw_exec": map[string]any{"config": map[string]any{"enabled": true}}},
			map[string]any{"nomad-driver-psg": map[string]any{"config": plugin}},
			map[string]any{"cards": map[string]any{"args": []string{"2"}}},
		},
	}
	if r.layout.secure {
		config["acl"] = map[string]any{"enabled": true}
		plugin["tls"] = map[string]any{"ca": r.operator.CA, "cert": r.operator.Cert, "key": r.operator.Key}
	}
	return config
}

func (r *region) volume() string { return filepath.Join(r.dir, "volume") }

// pluginDir holds the plugins.
func (r *region) pluginDir() string { return filepath.Join(r.dir, "plugins") }

// ownPlugins is where a client looks for plugins, a link to pluginDir: it shows in
// the command lines of those it runs, by which they are found should the client
// be killed.
func ownPlugins(a *e2e.Agent) string { return filepath.Join(a.Dir, "plugins") }

// plugins links the plugins where the clients look.
func (r *region) plugins() error {
	errs := []error{
		os.MkdirAll(r.pluginDir(), 0o755), os.MkdirAll(r.volume(), 0o755),
		os.Symlink(programs.Driver, filepath.Join(r.pluginDir(), "nomad-driver-psg")),
		os.Symlink(programs.Cards, filepath.Join(r.pluginDir(), "cards")),
	}
	for _, a := range r.clients {
		errs = append(errs, os.MkdirAll(a.Dir, 0o755), os.Symlink(r.pluginDir(), ownPlugins(a)))
	}
	return errors.Join(errs...)
}
