package nomad_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// cluster is a real Nomad: one server and a few clients, on loopback.
type cluster struct {
	*testing.T
	client  *api.Client
	address string
	nodes   []string // IDs, by client
	agents  []*agent // the server first
}

// agent is one `nomad agent` process.
type agent struct {
	command *exec.Cmd
	output  bytes.Buffer
	ended   chan struct{}
}

// nomadBinary skips the test, loudly, where there is no nomad.
func nomadBinary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out the tests on a real Nomad")
	}
	path, err := exec.LookPath("nomad")
	if err != nil {
		t.Skip("SKIPPED: NO nomad ON PATH: nothing here was tested on a real Nomad")
	}
	return path
}

// client is how one node of the cluster is made.
type client struct {
	cpu, memory int
	class       string
}

// startCluster starts a server and clients and waits until all are ready. With
// gates set, the clients load PSG's driver, which asks there.
func startCluster(t *testing.T, gates string, clients ...client) *cluster {
	t.Helper()
	binary := nomadBinary(t)
	ports := freePorts(t, 3+3*len(clients))
	dir := mountable(t)
	c := &cluster{T: t, address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	c.start(binary, filepath.Join(dir, "server"), "server", ports[:3], map[string]any{
		"server": map[string]any{
			"enabled": true, "bootstrap_expect": 1, "raft_multiplier": 1,
			"default_scheduler_config": map[string]any{"memory_oversubscription_enabled": true},
		},
	})
	for i, one := range clients {
		mine := ports[3+3*i : 6+3*i]
		c.start(binary, filepath.Join(dir, fmt.Sprint("client", i)), fmt.Sprint("client", i), mine, c.clientConfig(one, gates, ports[1]))
	}
	config := api.DefaultConfig()
	config.Address, config.SecretID, config.Namespace, config.Region = c.address, "", "", ""
	var err error
	if c.client, err = api.NewClient(config); err != nil {
		t.Fatal(err)
	}
	c.Cleanup(c.empty) // before the agents stop: a client leaves its tasks running
	c.nodes = make([]string, len(clients))
	c.until(60*time.Second, "every node is ready", func() bool {
		nodes, _, err := c.client.Nodes().List(nil)
		ready := 0
		for _, n := range nodes {
			var at int
			if _, scan := fmt.Sscanf(n.Name, "client%d", &at); scan == nil && n.Status == api.NodeStatusReady {
				c.nodes[at] = n.ID
				ready++
			}
		}
		return err == nil && ready == len(clients)
	})
	return c
}

// mountable is a directory in which Nomad may leave mounts behind.
func mountable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "psg-nomad-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mounts, _ := os.ReadFile("/proc/self/mounts")
		for line := range strings.Lines(string(mounts)) {
			if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
				_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// empty ends every job and waits until no task runs.
func (c *cluster) empty() {
	jobs, _, err := c.client.Jobs().List(&api.QueryOptions{Namespace: "*"})
	if err != nil {
		c.Errorf("end jobs: %v", err)
		return
	}
	for _, job := range jobs {
		_, _, _ = c.client.Jobs().Deregister(job.ID, false, &api.WriteOptions{Namespace: job.Namespace})
	}
	deadline := time.Now().Add(2 * time.Minute)
	for range time.Tick(50 * time.Millisecond) {
		allocs, _, err := c.client.Allocations().List(&api.QueryOptions{Namespace: "*"})
		left := slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool {
			return a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending && a.DesiredStatus == api.AllocDesiredStatusRun
		})
		if err == nil && !left {
			return
		}
		if time.Now().After(deadline) {
			c.Errorf("tasks still run after 2 minutes")
			return
		}
	}
}

func (c *cluster) clientConfig(one client, gates string, server int) map[string]any {
	config := map[string]any{
		"client": map[string]any{
			"enabled": true, "servers": []string{fmt.Sprintf("127.0.0.1:%d", server)},
			"cpu_total_compute": one.cpu, "memory_total_mb": one.memory, "node_class": one.class,
			"options": map[string]string{"fingerprint.denylist": "env_aws,env_azure,env_gce,env_digitalocean,consul,vault,cni,bridge"},
		},
		"plugin": []any{map[string]any{"raw_exec": map[string]any{"config": map[string]any{"enabled": true}}}},
	}
	if gates != "" {
		config["plugin_dir"] = c.plugins()
		config["plugin"] = append(config["plugin"].([]any),
			map[string]any{"nomad-driver-psg": map[string]any{"config": map[string]any{"controllers": []string{gates}}}})
	}
	return config
}

// plugins is a directory with nothing but PSG's driver.
func (c *cluster) plugins() string {
	c.Helper()
	dir := c.TempDir()
	if err := os.Symlink(program(c.T, "nomad-driver-psg"), filepath.Join(dir, "nomad-driver-psg")); err != nil {
		c.Fatal(err)
	}
	return dir
}

func (c *cluster) start(binary, dir, name string, ports []int, config map[string]any) {
	c.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.Fatal(err)
	}
	config["name"], config["data_dir"], config["bind_addr"], config["log_level"] = name, filepath.Join(dir, "data"), "127.0.0.1", "warn"
	config["ports"] = map[string]int{"http": ports[0], "rpc": ports[1], "serf": ports[2]}
	config["advertise"] = map[string]string{"http": "127.0.0.1", "rpc": "127.0.0.1", "serf": "127.0.0.1"}
	config["disable_update_check"] = true
	data, err := json.Marshal(config)
	if err != nil {
		c.Fatal(err)
	}
	path := filepath.Join(dir, "agent.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		c.Fatal(err)
	}
	a := &agent{command: exec.Command(binary, "agent", "-config", path), ended: make(chan struct{})}
	a.command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_CA_BUNDLE=") || strings.HasPrefix(v, "NOMAD_")
	})
	a.command.Stdout, a.command.Stderr = &a.output, &a.output
	if err := a.command.Start(); err != nil {
		c.Fatal(err)
	}
	go func() { defer close(a.ended); _ = a.command.Wait() }()
	c.agents = append(c.agents, a)
	c.Cleanup(func() { a.stop(c.T, name) })
}

// stop ends the agent; its output is told when the test has failed.
func (a *agent) stop(t *testing.T, name string) {
	_ = a.command.Process.Signal(syscall.SIGINT)
	select {
	case <-a.ended:
	case <-time.After(20 * time.Second):
		_ = a.command.Process.Kill()
		<-a.ended
	}
	if t.Failed() && (name == "controller" || name == "proxy") { // what nomad agents say is rarely why
		text := a.output.Bytes()
		t.Logf("%s says:\n%s", name, text[max(0, len(text)-9000):])
	}
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// until polls until done, or ends the test with what was waited for.
func (c *cluster) until(limit time.Duration, what string, done func() bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	poll := time.NewTicker(25 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			c.Fatalf("%s: not within %s", what, limit)
		case <-poll.C:
		}
	}
}

// allocs are the allocations of a job that are wanted.
func (c *cluster) allocs(job string) []*api.AllocationListStub {
	c.Helper()
	all, _, err := c.client.Jobs().Allocations(job, true, nil)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(a *api.AllocationListStub) bool { return a.DesiredStatus != api.AllocDesiredStatusRun })
}

// purge ends a job, waits until nothing of it runs, and removes it: what is
// purged while it runs, nobody can wait for.
func (c *cluster) purge(job string) {
	c.Helper()
	for _, purge := range []bool{false, true} {
		if _, _, err := c.client.Jobs().Deregister(job, purge, nil); err != nil {
			c.Fatal(err)
		}
		c.until(60*time.Second, job+" has ended", func() bool {
			all, _, err := c.client.Jobs().Allocations(job, true, nil)
			return err == nil && !slices.ContainsFunc(all, func(a *api.AllocationListStub) bool {
				return a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending
			})
		})
	}
}
