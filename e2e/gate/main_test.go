// Package gate tests PSG's gate and run mode on a real Nomad, with the binaries
// as users get them. Its tests skip, loudly, where no nomad is on PATH.
package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg/e2e/cluster"
	"github.com/psgrid/psg/rpc"
)

const skipped = "SKIPPED: no nomad on PATH, the end-to-end tests on a real Nomad did not run"

// shared is the grid that all tests use; nil without a nomad.
var shared *grid

func TestMain(m *testing.M) {
	// The agents get a signal should the thread that started them die.
	runtime.LockOSThread()
	nomad, err := exec.LookPath("nomad")
	if err != nil {
		fmt.Fprintln(os.Stderr, skipped)
		os.Exit(m.Run())
	}
	code, err := withGrid(nomad, m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	os.Exit(code)
}

// withGrid runs the tests on a grid and leaves nothing of it behind.
func withGrid(nomad string, run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "psg-e2e-") // short: Nomad's sockets are below it
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, nothingLeft(dir), cluster.Remove(dir)) }()
	binaries, err := cluster.Build(context.Background(), dir)
	if err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	first, err := newGrid(dir, "closed", nomad, binaries, map[string]any{"fail_after": "1s"})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, first.end()) }()
	if err := first.start(ctx); err != nil {
		return 1, err
	}
	shared = first
	return run(), nil
}

// nothingLeft reports the processes of a directory that outlived their owners,
// and ends them.
func nothingLeft(dir string) error {
	err := cluster.Until(context.Background(), 5*time.Second, "everything has ended", func() (bool, error) {
		left := cluster.Leftovers(dir)
		return len(left) == 0, fmt.Errorf("left running:\n%s", strings.Join(left, "\n"))
	})
	for _, process := range cluster.Leftovers(dir) {
		var pid int
		if _, err := fmt.Sscan(process, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return err
}

// newGrid lays out a controller and a Nomad that do not run yet.
func newGrid(dir, name, nomad string, binaries cluster.Binaries, settings map[string]any) (*grid, error) {
	addresses, err := cluster.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	g := &grid{
		controller: &cluster.Controller{
			Binary: binaries.PSG, Dir: filepath.Join(dir, name, "controller"),
			Bundle: filepath.Join(binaries.Root, "policies", "library", "gpu_colocation"),
			Nomad:  []string{"NOMAD_ADDR=http://" + addresses[0]}, GRPC: addresses[1], REST: addresses[2],
		},
		nomad: &cluster.Nomad{
			Binary: nomad, Plugins: binaries, Dir: filepath.Join(dir, name), Cards: 4, HTTP: addresses[0],
			Settings: settings,
		},
	}
	settings["controllers"] = []string{addresses[1]}
	if g.rest, err = rpc.NewRESTClient(g.controller.URL()); err != nil {
		return nil, err
	}
	return g, os.MkdirAll(g.controller.Dir, 0o755)
}
