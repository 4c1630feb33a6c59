package nomad_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/psgrid/psg/bus/server"
	e2e "github.com/psgrid/psg/e2e/cluster"
)

// asBus holds the busConfig of a process that is to be a NATS server.
const asBus = "PSG_TEST_NATS"

type busConfig struct{ Dir, Listen string }

// runBus is a NATS server until it gets a signal.
func runBus(config string) int {
	var c busConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	running, err := server.Start(server.Config{Dir: c.Dir, Listen: c.Listen})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	<-end
	running.Close()
	return 0
}

// startBus runs the region's NATS server, again with what it kept.
func (r *region) startBus() error {
	config, err := json.Marshal(busConfig{Dir: filepath.Join(r.dir, "bus"), Listen: r.busURL})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r.bus, err = e2e.Launch(r.dir, "bus", []string{asBus + "=" + string(config)}, self)
	return err
}
