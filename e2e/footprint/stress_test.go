package footprint

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Hysteresis takes a second, recovery three slow collections, and the machine
// may have other work.
const stressLimit = 30 * time.Second

func TestAgent_YieldsToStressAndRecovers(t *testing.T) {
	if _, err := exec.LookPath("stress-ng"); err != nil {
		t.Skip("SKIPPED: no stress-ng on PATH (Debian's package stress-ng)")
	}
	if busy := busyPercent(t); busy > 60 {
		t.Skipf("SKIPPED: %.0f percent of the CPUs are busy with other work, recovery would say nothing", busy)
	}
	binary := build(t, "cmd/psg-agent")
	wire := startWire(t)
	log := new(syncBuffer)
	start(t, nil, log, binary, "-node", "stress", "-nats", wire.url)
	rate := func() float64 { // of what is sent, in bytes a second
		before, began := wire.bytes.Load(), time.Now()
		pause(t, 4*time.Second)
		return float64(wire.bytes.Load()-before) / time.Since(began).Seconds()
	}
	pause(t, time.Second)
	idle := rate()

	stress := exec.Command("stress-ng", "--cpu", "0", "--quiet") // a worker per CPU
	if err := stress.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		_ = stress.Process.Signal(os.Interrupt)
		_ = stress.Wait()
	}
	t.Cleanup(stop)
	waitFor(t, log, "degraded=true")
	if under := rate(); under > idle/2 {
		t.Errorf("%.0f bytes a second are sent under stress, %.0f before", under, idle)
	}
	stop()
	waitFor(t, log, "degraded=false")
	if n := strings.Count(log.String(), "collection rate changed"); n != 2 {
		t.Errorf("the rate changed %d times, want 2:\n%s", n, log)
	}
}

func waitFor(t *testing.T, log *syncBuffer, text string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(log.String(), text); pause(t, 50*time.Millisecond) {
		if time.Since(began) > stressLimit {
			t.Fatalf("no %q within %s:\n%s", text, stressLimit, log)
		}
	}
}

// busyPercent is how much of the machine's CPUs is in use over a second.
func busyPercent(t *testing.T) float64 {
	t.Helper()
	reading := func() (busy, total float64) {
		text, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Fatal(err)
		}
		var f [8]float64
		if _, err := fmt.Sscan(strings.TrimPrefix(string(text), "cpu"), &f[0], &f[1], &f[2], &f[3], &f[4], &f[5], &f[6], &f[7]); err != nil {
			t.Fatal(err)
		}
		for _, v := range f {
			total += v
		}
		return total - f[3] - f[4], total
	}
	busyBefore, totalBefore := reading()
	pause(t, time.Second)
	busy, total := reading()
	return 100 * (busy - busyBefore) / (total - totalBefore)
}
