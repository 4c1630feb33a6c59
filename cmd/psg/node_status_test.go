package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/psgrid/psg"
)

func measuredNode(cpu float64) psg.Node {
	return psg.Node{
		ID: "node-1", Name: "one", Ready: true,
		Telemetry: &psg.Telemetry{
			At: time.Unix(1_800_000_000, 0).UTC(),
			Metrics: map[string]psg.Stats{
				"cpu_percent":    {Last: cpu, Mean: cpu, Max: cpu, Over60s: &psg.Summary{Mean: 12.25, Max: 99}},
				"agent_degraded": {Last: 1},
			},
			Allocs: []psg.AllocTelemetry{{Alloc: "alloc-1", Metrics: map[string]psg.Use{"memory_mb": {Last: 512, Max: 600}}}},
		},
		Projection: &psg.Projection{Mean: psg.Resources{psg.CPU: 1500}, Upper: psg.Resources{psg.CPU: 2500}},
		Devices: []psg.Device{{
			ID: "GPU-a", Vendor: "nvidia", Type: "gpu", Model: "A100", MemoryMB: 40_960, NUMA: 1, Link: "nvlink-0",
			Attributes: map[string]string{"health": "the card does not answer"},
		}},
	}
}

func TestShowNode_SaysWhatIsMeasuredAndForecast(t *testing.T) {
	var plain, verbose bytes.Buffer
	if err := errors.Join(showNode(&plain, measuredNode(50), false), showNode(&verbose, measuredNode(50), true)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"degraded", "2027-01-15T08:00:00Z", "at most cpu_mhz=2500", "cpu_percent\t50.00",
		"GPU-a nvidia/gpu/A100 40960 MiB healthy=false numa=1 link=nvlink-0 (the card does not answer)", "alloc-1\tmemory_mb\t512.00"} {
		if !strings.Contains(plain.String(), want) {
			t.Errorf("no %q in\n%s", want, &plain)
		}
	}
	if strings.Contains(plain.String(), "over 60 s") || !strings.Contains(verbose.String(), "over 60 s\t\t12.25") {
		t.Errorf("the window of 60 s is to be shown by -verbose only:\n%s\n%s", &plain, &verbose)
	}
	unmeasured := psg.Node{ID: "node-2"}
	plain.Reset()
	if err := errors.Join(showNode(&plain, unmeasured, true), listNodes(&plain, []psg.Node{unmeasured}, true)); err != nil || !strings.Contains(plain.String(), "never") {
		t.Errorf("%v, of a node without telemetry:\n%s", err, &plain)
	}
}

func TestBars_RiseWithTheValue(t *testing.T) {
	for want, of := range map[string]struct {
		values []float64
		most   float64
	}{
		"▁▅█": {[]float64{0, 50, 100}, 100},
		"▂▂▂": {[]float64{20, 20, 20}, 100},
		"▁▄█": {[]float64{0, 3, 7}, 0},
		"▁▁":  {[]float64{0, -1}, 0},
		"":    {nil, 100},
	} {
		if got := bars(of.values, of.most); got != want {
			t.Errorf("bars(%v, %v) = %s, want %s", of.values, of.most, got, want)
		}
	}
}

// TestWatchNodes_DrawsInATerminalUntilQ runs -live in a pseudo terminal.
func TestWatchNodes_DrawsInATerminalUntilQ(t *testing.T) {
	person, tty, err := pty.Open()
	if err != nil {
		t.Skipf("SKIPPED: no pseudo terminal here: %v", err)
	}
	defer person.Close()
	defer tty.Close()
	if screen, ok := terminal(tty); !ok || screen != tty {
		t.Fatal("a terminal is not known as one")
	}
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	drawn := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- watchNodes(t.Context(), tty, tty, func() ([]psg.Node, error) {
			select {
			case drawn <- struct{}{}:
			default:
			}
			return []psg.Node{measuredNode(100)}, nil
		})
	}()
	<-drawn
	if _, err := person.WriteString("xq"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	_ = person.SetReadDeadline(time.Now().Add(time.Minute)) // where it can be set
	for shown := ""; !strings.Contains(shown, "cpu_percent") || !strings.Contains(shown, "█"); {
		var part [8192]byte // a terminal gives what was written piece by piece
		n, err := person.Read(part[:])
		if shown += string(part[:n]); err != nil {
			t.Fatalf("%v, drawn: %q", err, shown)
		}
	}
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("%v: the terminal is left as %+v, it was %+v", err, after, before)
	}
}

func TestWatchNodes_EndsWithItsContext(t *testing.T) {
	person, tty, err := pty.Open()
	if err != nil {
		t.Skipf("SKIPPED: no pseudo terminal here: %v", err)
	}
	defer person.Close()
	defer tty.Close()
	ctx, stop := context.WithCancel(t.Context())
	err = watchNodes(ctx, tty, tty, func() ([]psg.Node, error) {
		stop() // as Ctrl-C does
		return nil, errors.New("no controller answers")
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTerminal_IsNoFileAndNoBuffer(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, ok := terminal(file); ok {
		t.Error("a file is taken for a terminal")
	}
	if _, ok := terminal(new(bytes.Buffer)); ok {
		t.Error("a buffer is taken for a terminal")
	}
}
