package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries are the built programs.
type Binaries struct {
	PSG    string
	Driver string // the task driver plugin
	Cards  string // the device plugin with simulated cards
	Root   string // the module's directory
}

// Build compiles the programs into dir.
func Build(ctx context.Context, dir string) (Binaries, error) {
	gomod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(gomod)))
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(os.PathSeparator),
		"./cmd/psg", "./cmd/nomad-driver-psg", "./e2e/cards")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("build: %w\n%s", err, output)
	}
	return Binaries{
		PSG: filepath.Join(dir, "psg"), Driver: filepath.Join(dir, "nomad-driver-psg"),
		Cards: filepath.Join(dir, "cards"), Root: root,
	}, nil
}
