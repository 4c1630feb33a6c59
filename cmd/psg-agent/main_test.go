package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/telemetry"
)

func TestRun_PublishesToTheBus(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	nats, err := server.Start(server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	watcher, err := bus.Connect(bus.Config{URLs: []string{nats.ClientURL()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	windows := telemetry.NewWindows()
	watched := make(chan error, 1)
	go func() {
		watched <- watcher.WatchTelemetry(ctx, func(sample psg.Sample) error {
			err := windows.Fold(sample, time.Now())
			if err != nil {
				t.Error(err)
			}
			return err
		})
	}()
	var stdout, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"-node", "node.1", "-state-dir", t.TempDir(), "-nats", nats.ClientURL(), "-interval", "20ms"}, &stdout, &stderr)
	}()
	until(ctx, t, func() bool {
		seen, _ := windows.Observed("node.1")
		_, ok := seen.Telemetry.Metrics["cpu_percent"] // a rate needs two readings
		return ok
	})
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

func TestRun_CheckPrintsWhatCanBeMeasured(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-check", "-nvml", filepath.Join(t.TempDir(), "absent.so")}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	for _, metric := range []string{"cpu_percent", "memory_available_mb", "load_1m", "network_received_mbits", "Control groups: ", "measure by nvml: "} {
		if !strings.Contains(stdout.String(), metric) {
			t.Errorf("no %s in\n%s", metric, &stdout)
		}
	}
}

func TestRun_CheckFailsWithoutCPU(t *testing.T) {
	proc := t.TempDir()
	if err := os.WriteFile(filepath.Join(proc, "loadavg"), []byte("0.25 0.00 0.00 1/2 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-check", "-proc", proc}, &stdout, &stderr); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(stderr.String(), "cpu_percent cannot be measured") || !strings.Contains(stdout.String(), "0.25") {
		t.Errorf("printed\n%s%s", &stdout, &stderr)
	}
}

func TestRun_RefusesBadCommandLines(t *testing.T) {
	for want, args := range map[string][]string{
		"no node ID":         {"-nats", "nats://127.0.0.1:1"},
		"-nats":              {"-node", "n"},
		"scheme \"bogus\"":   {"-node", "n", "-nats", "bogus://127.0.0.1:1"},
		"for the gRPC face":  {"-node", "n", "-nats", "nats://127.0.0.1:1", "-orders-token", "token"},
		"interval 1ms":       {"-node", "n", "-nats", "nats://127.0.0.1:1", "-interval", "1ms"},
		"unexpected \"now\"": {"-check", "now"},
		"not defined":        {"-chekc"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
}
