package agent

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/psgrid/psg"
)

// Exposition returns the last values of all that is measured, in Prometheus's
// text format, between two collections of Run:
//
//	psg_node_cpu_percent 12.5
//	psg_node_disk_device_latency_ms{device="nvme0n1"} 0.2    of disk/nvme0n1/latency_ms
//	psg_alloc_memory_mb{alloc="…"} 512
//
// Only while Run runs is there an answer.
func (a *Agent) Exposition(ctx context.Context) ([]byte, error) {
	reply := make(chan []byte, 1)
	select {
	case a.scrapes <- reply:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case text := <-reply:
		return text, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// exposed is one line of the text.
type exposed struct {
	family, labels string
	value          float64
}

// exposition is for the collector's goroutine.
func (a *Agent) exposition() []byte {
	var lines []exposed
	for s := range a.recorder.All() {
		alloc, metric := s.Name()
		if value, ok := s.Last(); ok {
			lines = append(lines, expose(alloc, metric, value))
		}
	}
	slices.SortFunc(lines, func(x, y exposed) int {
		return strings.Compare(x.family+"\x00"+x.labels, y.family+"\x00"+y.labels)
	})
	// Names that differ only in what a metric's may not have would make Prometheus
	// refuse all.
	lines = slices.CompactFunc(lines, func(x, y exposed) bool { return x.family == y.family && x.labels == y.labels })
	var out bytes.Buffer
	family := ""
	for _, line := range lines {
		if line.family != family {
			family = line.family
			fmt.Fprintf(&out, "# TYPE %s gauge\n", family)
		}
		fmt.Fprintf(&out, "%s%s %s\n", line.family, line.labels, strconv.FormatFloat(line.value, 'g', -1, 64))
	}
	return out.Bytes()
}

func expose(alloc psg.AllocID, metric string, value float64) exposed {
	if alloc != "" {
		return exposed{"psg_alloc_" + word(metric), label("alloc", string(alloc)), value}
	}
	kind, rest, ofDevice := strings.Cut(metric, "/")
	last := strings.LastIndex(rest, "/")
	if !ofDevice || last < 0 {
		return exposed{"psg_node_" + word(metric), "", value}
	}
	return exposed{"psg_node_" + word(kind) + "_device_" + word(rest[last+1:]), label("device", rest[:last]), value}
}

// word has only what the name of a metric may have.
func word(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

func label(name, value string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "?"))
	return "{" + name + `="` + escaped + `"}`
}
