package host_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// BenchmarkStartToGranted is from StartTask to the gate's exit, through the
// plugin process, its protocol and the controller's gRPC, each over a real
// socket. It also reports the resident memory of the idle plugin process.
func BenchmarkStartToGranted(b *testing.B) {
	c := listen(b, "127.0.0.1:0")
	c.grants()
	w := start(b, []any{c.address})
	idle := residentMB(b, w.Info().PID)
	n := 0
	for b.Loop() {
		n++
		gate := w.task("gate", nil)
		gate.Alloc = psg.AllocID(fmt.Sprintf("a%d", n))
		id := w.start(gate)
		if exit := w.wait(id); !exit.OK() {
			b.Fatalf("got %+v", exit)
		}
		b.StopTimer()
		if err := w.Destroy(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(idle, "idle-MB")
	b.ReportMetric(residentMB(b, w.Info().PID), "after-MB")
}

func residentMB(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(n) / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
