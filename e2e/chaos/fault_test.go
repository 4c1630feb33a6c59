package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	nouns "github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

// newSingle starts one controller with its embedded bus in dir.
func newSingle(t *testing.T, dir string) *grid {
	t.Helper()
	logs := t.TempDir()
	g := &grid{t: t}
	t.Cleanup(g.stop)
	at := addresses(t, 1)[0]
	g.urls = []string{"nats://" + at}
	g.operate(filepath.Join(dir, "issuer.nk")) // as the controller finds it
	p := g.addController(logs, "-data-dir", dir, "-nats-listen", at)
	g.leader()
	// The world is reported by a leader; here the first record is the test's.
	p.kill()
	g.seedAlone(dir, at)
	p.start()
	return g
}

// TestParallel asks 1,000 times at once for a node that has room for 30.
func TestParallel_ExactlyWhatFitsIsGranted(t *testing.T) {
	t.Parallel()
	g := newSingle(t, t.TempDir())
	g.leader()
	client, err := rpc.Dial(g.grpc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var granted, waits atomic.Int64
	var group sync.WaitGroup
	for i := range 1000 {
		group.Go(func() {
			order, err := client.Place(t.Context(), asks(fmt.Sprint("p", i), "tight", "tight", 1)[0], 0)
			switch {
			case err != nil:
				t.Error(err)
			case order.Kind == nouns.Grant:
				granted.Add(1)
			default:
				waits.Add(1)
			}
		})
	}
	group.Wait()
	if granted.Load() != tightRoom || waits.Load() != 1000-tightRoom {
		t.Errorf("%d granted, %d told otherwise; want %d and %d", granted.Load(), waits.Load(), tightRoom, 1000-tightRoom)
	}
	js, _ := g.connect()
	check(t, js)
}

// TestDiskFull fills the disk under a leader. It refuses, serves readers, and
// goes on when there is room again.
func TestDiskFull_RefusesAndGoesOn(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: a small file system cannot be mounted here: %v: %s", err, said)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, said)
		}
	})
	g := newSingle(t, filepath.Join(disk, "bus"))
	g.leader()
	l := startLoad(t, g.grpc)
	g.served(time.Now())
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	eventually(t, 90*time.Second, "the leader says that it cannot commit", func() bool {
		said, err := os.ReadFile(g.controllers[0].log)
		return err == nil && (strings.Contains(string(said), "cycle not committed") || strings.Contains(string(said), "lease not"))
	})
	if _, err := g.status(0); err != nil {
		t.Errorf("readers are not served: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if !g.recovers(20 * time.Second) { // NATS may need to open its files anew
		g.controllers[0].kill()
		g.controllers[0].start()
	}
	g.served(time.Now())
	l.finish()
	g.settle(l)
}

// recovers reports whether something is answered within a time.
func (g *grid) recovers(within time.Duration) bool {
	probe := startProbe(g)
	defer probe.finish()
	ctx, cancel := context.WithTimeout(g.t.Context(), within)
	defer cancel()
	for poll := time.NewTicker(50 * time.Millisecond); probe.last.Load() == 0; {
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
	return true
}

// fill writes until nothing more fits.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := file.Write(block); err != nil {
			if len(block) == 1 {
				return
			}
			block = block[:max(1, len(block)/16)]
		}
	}
}

// TestTornRecord leaves half a record at the ledger's end, as a power cut does with
// a write under way. What was acknowledged before it is all there.
func TestTornRecord_TheRestIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newSingle(t, dir)
	g.leader()
	l := startLoad(t, g.grpc)
	g.served(time.Now())
	pause(t, time.Second)
	l.finish()
	g.controllers[0].kill()
	block := newestBlock(t, filepath.Join(dir, "jetstream", "$G", "streams", "PSG_LEDGER", "msgs"))
	file, err := os.OpenFile(block, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("\x00\x01\x00\x00half a record, of which nobody was told")); err != nil {
		t.Fatal(err)
	}
	file.Close()
	g.controllers[0].start()
	g.leader()
	l.client.Close()
	g.served(time.Now())
	g.settle(l)
}

func newestBlock(t *testing.T, dir string) string {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no blocks in %s: %v", dir, err)
	}
	newest := blocks[0]
	for _, block := range blocks {
		if len(block) > len(newest) || len(block) == len(newest) && block > newest {
			newest = block
		}
	}
	return newest
}
