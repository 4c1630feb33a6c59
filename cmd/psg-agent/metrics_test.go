package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRun_ServesMetricsToPrometheus(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	var stdout, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		// The bus is away: what is measured is told all the same.
		ended <- run(ctx, []string{"-node", "n", "-state-dir", t.TempDir(), "-nats", "nats://127.0.0.1:1", "-interval", "20ms", "-metrics", address}, &stdout, &stderr)
	}()
	until(ctx, t, func() bool {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(text), "\npsg_node_cpu_percent ")
	})
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
}

func TestRun_RefusesAnAddressThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-node", "n", "-state-dir", t.TempDir(), "-nats", "nats://127.0.0.1:1", "-metrics", taken.Addr().String()}, &stdout, &stderr)
	if code != exitFailure || !strings.Contains(stderr.String(), "metrics: listen tcp") {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
}
