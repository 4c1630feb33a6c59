package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Agent is one `nomad agent` of a cluster of several. It keeps its addresses and
// its state from one start to the next.
type Agent struct {
	Binary string
	Dir    string         // everything it writes; short, since sockets are below it
	Name   string         // unique in the cluster
	Config map[string]any // what is its own: "server" or "client", and plugins
	HTTP   string         // host:port
	RPC    string         // host:port
	Serf   string         // host:port
	TLS    *TLS           // nil means plain text

	*Process // nil until Start
}

// Start runs the agent; it may not be ready when Start returns.
func (a *Agent) Start() error {
	if err := os.MkdirAll(filepath.Join(a.Dir, "tmp"), 0o755); err != nil {
		return err
	}
	config := map[string]any{
		"name": a.Name, "data_dir": filepath.Join(a.Dir, "data"), "bind_addr": "127.0.0.1", "log_level": "warn",
		"ports":                map[string]int{"http": port(a.HTTP), "rpc": port(a.RPC), "serf": port(a.Serf)},
		"advertise":            map[string]string{"http": "127.0.0.1", "rpc": "127.0.0.1", "serf": "127.0.0.1"},
		"disable_update_check": true,
	}
	if a.TLS != nil {
		config["tls"] = map[string]any{
			"http": true, "rpc": true, "verify_https_client": true, "verify_server_hostname": true,
			"ca_file": a.TLS.CA, "cert_file": a.TLS.Cert, "key_file": a.TLS.Key,
		}
	}
	maps.Copy(config, a.Config)
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	path := filepath.Join(a.Dir, "agent.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	a.Process, err = start(a.Binary, []string{"agent", "-config", path},
		environ("TMPDIR="+filepath.Join(a.Dir, "tmp")), filepath.Join(a.Dir, "nomad.log"), syscall.SIGKILL)
	return err
}

// End stops the agent. A client leaves its tasks running.
func (a *Agent) End() error {
	if a.Process == nil {
		return nil
	}
	return a.Stop(syscall.SIGINT, 20*time.Second)
}

// Kill ends the agent as a power cut would, but for its tasks.
func (a *Agent) Kill() error { return a.Stop(syscall.SIGKILL, 5*time.Second) }

// Environ are the variables with which the nomad command, and PSG, reach the
// agent. The token is none if empty.
func (a *Agent) Environ(client *TLS, token string) []string {
	env := []string{"NOMAD_ADDR=" + a.URL()}
	if client != nil {
		env = append(env, "NOMAD_CACERT="+client.CA, "NOMAD_CLIENT_CERT="+client.Cert, "NOMAD_CLIENT_KEY="+client.Key)
	}
	if token != "" {
		env = append(env, "NOMAD_TOKEN="+token)
	}
	return env
}

// URL is where the agent's HTTP API is.
func (a *Agent) URL() string {
	if a.TLS != nil {
		return "https://" + a.HTTP
	}
	return "http://" + a.HTTP
}

// Client is an API client of the agent.
func (a *Agent) Client(client *TLS, token string) (*api.Client, error) {
	config := &api.Config{Address: a.URL(), SecretID: token}
	if client != nil {
		config.TLSConfig = &api.TLSConfig{CACert: client.CA, ClientCert: client.Cert, ClientKey: client.Key}
	}
	return api.NewClient(config)
}

// Command runs a program with more variables than this process's, of which
// those of Nomad and PSG are taken out, and returns all it printed.
func Command(ctx context.Context, env []string, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Env = environ(env...)
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %v: %w", filepath.Base(program), args, err)
	}
	return string(output), err
}

// Launch starts a program of PSG's that runs until it is stopped; it writes what
// it prints to dir/name.log.
func Launch(dir, name string, env []string, program string, args ...string) (*Process, error) {
	return start(program, args, environ(env...), filepath.Join(dir, name+".log"), syscall.SIGKILL)
}
