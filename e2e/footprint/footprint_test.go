package footprint

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg/bus/server"
)

// The targets, of the agent at its default interval with 100 workloads.
const (
	maxRSSMB     = 20
	maxCPU       = 3.0 // percent of one core
	maxPause     = time.Millisecond
	maxWireBytes = 2000 // a second, both directions, while nothing happens
)

// warmUp is longer than the windows are, so that memory has grown to its size.
const warmUp = 12 * time.Second

func TestAgent_CostsLittle(t *testing.T) {
	binary, reader := build(t, "cmd/psg-agent"), build(t, "e2e/footprint/bare")
	startWorkloads(t, *workloads)
	wire := startWire(t)
	log := new(syncBuffer)
	// It is not to yield to whatever else runs here.
	agent := start(t, nil, log, binary, "-node", "footprint", "-nats", wire.url, "-slow-interval", "200ms")
	pause(t, warmUp)

	files := kernelFiles(t, agent)
	if atLeast := 2 * *workloads; len(files) < atLeast {
		t.Fatalf("the agent holds %d files open, want at least %d\n%s", len(files), atLeast, log)
	}
	bare := start(t, strings.NewReader(strings.Join(files, "\n")), io.Discard, reader)
	pause(t, time.Second)

	agentBefore, bareBefore, bytesBefore := costOf(t, agent), costOf(t, bare), wire.bytes.Load()
	pause(t, *duration)
	agentAfter, bareAfter, bytesAfter := costOf(t, agent), costOf(t, bare), wire.bytes.Load()

	cpu, bareCPU := agentAfter.since(agentBefore), bareAfter.since(bareBefore)
	sent := float64(bytesAfter-bytesBefore) / agentAfter.at.Sub(agentBefore.at).Seconds()
	gc := pausesIn(log.Bytes())
	t.Logf("%d workloads, %d files, every 200 ms, for %s:", *workloads, len(files), *duration)
	t.Logf("  memory     %5.1f MB      (target %d)  bare reader %.1f MB, ratio %.1f", agentAfter.rssMB, maxRSSMB, bareAfter.rssMB, agentAfter.rssMB/bareAfter.rssMB)
	t.Logf("  CPU        %5.2f %%       (target %.0f)   bare reader %.2f %%, ratio %.1f", cpu, maxCPU, bareCPU, cpu/bareCPU)
	t.Logf("  GC pause   %5.3f ms at most (target %.0f), %d collections", gc.longest.Seconds()*1e3, maxPause.Seconds()*1e3, gc.collections)
	t.Logf("  wire       %5.0f B/s      (target %d)", sent, maxWireBytes)
	if agentAfter.rssMB > maxRSSMB {
		t.Errorf("memory is above %d MB", maxRSSMB)
	}
	if sent > maxWireBytes || sent == 0 {
		t.Errorf("%.0f bytes a second are not within 1..%d", sent, maxWireBytes)
	}
	if n := niceness(t, agent); len(n) == 0 || slices.ContainsFunc(n, func(of string) bool { return of != "-5" }) {
		t.Errorf("the agent's threads run at niceness %v, want -5", n)
	}
	// On a busy machine time passes between two lines of any program.
	if *duration >= 30*time.Second {
		if cpu > maxCPU {
			t.Errorf("CPU is above %.0f percent of one core", maxCPU)
		}
		if gc.collections == 0 || gc.longest > maxPause {
			t.Errorf("the longest of %d pauses is above %s", 2*gc.collections, maxPause)
		}
	}
}

func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.FailNow()
	}
}

// start runs a Go program until the test ends, and returns its process's ID. It
// tells of its collections of garbage on stderr.
func start(t *testing.T, stdin io.Reader, stderr io.Writer, name string, args ...string) int {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdin, cmd.Stderr = append(os.Environ(), "GODEBUG=gctrace=1"), stdin, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// wire stands between the agent and a NATS server, and counts what passes.
type wire struct {
	url   string
	bytes atomic.Int64
}

func startWire(t *testing.T) *wire {
	t.Helper()
	nats, err := server.Start(server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: "nats://" + listener.Addr().String()}
	var copies sync.WaitGroup
	t.Cleanup(copies.Wait)
	t.Cleanup(func() { listener.Close() })
	copies.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(nats.ClientURL(), "nats://"))
			if err != nil {
				from.Close()
				continue
			}
			copies.Go(func() { w.copy(to, from) })
			copies.Go(func() { w.copy(from, to) })
		}
	})
	return w
}

// copy moves bytes until either side closes.
func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.bytes.Add(int64(n))
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// syncBuffer takes what a program writes while the test reads it.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buffer.Bytes())
}

func (b *syncBuffer) String() string { return string(b.Bytes()) }
