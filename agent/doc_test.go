package agent

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// docs/agent.md names every metric, and those of devices by what they end in.
func TestDoc_ListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t)
	c := collectorOf(t, n, slog.New(slog.DiscardHandler))
	c.Collect(time.Unix(100, 0))
	n.progress()
	c.Collect(time.Unix(101, 0))
	names := []string{"agent_degraded", "agent_dropped"}
	for _, m := range allocMetrics {
		names = append(names, m.name)
	}
	device := regexp.MustCompile(`^(disk|network)/[^/]+/`)
	devices := 0
	for _, m := range c.metrics {
		name := device.ReplaceAllString(m.name, "${1}_")
		names = append(names, name)
		if name != m.name {
			devices++
		}
	}
	if devices != 2*6+4 {
		t.Errorf("%d metrics of devices, want six each of two disks and four of an interface", devices)
	}
	for _, name := range names {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/agent.md does not name %s", name)
		}
	}
}
