// Package chaos kills, pauses and cuts off real processes under load - three
// NATS servers, three `psg controller` - and then reads the log to see whether
// anything was lost, placed twice or placed where there was no room. The reader
// shares no code with what it checks.
package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/psgrid/psg/bus/server"
)

// kills is how many rounds of killing TestChaos plays, and grids on how many
// clusters side by side.
var (
	kills = flag.Int("kills", 20, "`rounds` of killing")
	grids = flag.Int("grids", 2, "`clusters` that the rounds are played on")
)

// asServer is the environment variable that makes this binary a NATS server: its
// value is the server's configuration.
const asServer = "PSG_CHAOS_SERVER"

// psg is the built program.
var psg string

func TestMain(m *testing.M) {
	if config := os.Getenv(asServer); config != "" {
		os.Exit(serve(config))
	}
	flag.Parse()
	dir, err := os.MkdirTemp("", "psg-chaos-")
	if err != nil {
		panic(err)
	}
	psg = filepath.Join(dir, "psg")
	build := exec.Command("go", "build", "-o", psg, "github.com/psgrid/psg/cmd/psg")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build psg: %v\n%s", err, output)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// member is one server of a NATS cluster, as its process is told of it.
type member struct {
	Dir, Listen string
	Route       string   // where the other servers reach it
	Routes      []string // of all
}

func (m member) config() server.Config {
	return server.Config{Dir: m.Dir, Listen: m.Listen, Cluster: server.Cluster{Name: filepath.Base(m.Dir), Listen: m.Route, Routes: m.Routes}}
}

// serve is a NATS server until it is ended.
func serve(encoded string) int {
	var m member
	if err := json.Unmarshal([]byte(encoded), &m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	running, err := server.Start(m.config())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-ended
	running.Close()
	return 0
}
