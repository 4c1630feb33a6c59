package agent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestExpose_NamesDevicesAndAllocationsByLabels(t *testing.T) {
	for want, got := range map[string]exposed{
		`psg_node_cpu_percent`:                              expose("", "cpu_percent", 1),
		`psg_node_disk_device_latency_ms{device="nvme0n1"}`: expose("", "disk/nvme0n1/latency_ms", 1),
		`psg_node_network_device_drops_per_s{device="a/b"}`: expose("", "network/a/b/drops_per_s", 1),
		`psg_alloc_memory_mb{alloc="a\"1\\"}`:               expose(`a"1\`, "memory_mb", 1),
		`psg_node_strange_name`:                             expose("", "strange name", 1),
	} {
		if got.family+got.labels != want {
			t.Errorf("exposed %s%s, want %s", got.family, got.labels, want)
		}
	}
}

// TestExposition_HasEachNameOnce: Prometheus refuses a text that has one twice.
func TestExposition_HasEachNameOnce(t *testing.T) {
	a, err := New(configOf(newNode(t)), &bus{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.b", "a_b", "a b"} {
		a.recorder.Node(name).Put(time.Unix(100, 0), 1)
	}
	if text := string(a.exposition()); strings.Count(text, "psg_node_a_b 1\n") != 1 {
		t.Errorf("exposed\n%s", text)
	}
}

func TestExposition_IsWhatWasMeasuredLast(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		a, err := New(configOf(n), &bus{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		pass(time.Second)
		text, err := a.Exposition(ctx)
		if err != nil || !strings.Contains(string(text), "# TYPE psg_node_load_1m gauge\npsg_node_load_1m ") || !strings.Contains(string(text), "\npsg_node_agent_degraded 0\n") {
			t.Errorf("%v:\n%s", err, text)
		}
		stop()
		<-ended
		if _, err := a.Exposition(ctx); err == nil {
			t.Error("an agent that has ended answers")
		}
	})
}
