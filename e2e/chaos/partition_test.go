package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nouns "github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

// island is a network namespace with two links to the rest of the machine: one
// to the bus, which can be cut, and one to its clients. Neither leads anywhere
// else.
type island struct {
	name          string
	busLink       string // the island's end of it
	bus           string // address of the rest on the link to the bus
	clients, self string // addresses of the rest and of the island on the other
}

func newIsland(t *testing.T) *island {
	t.Helper()
	id := os.Getpid() % 10_000
	i := &island{
		name: fmt.Sprint("psg-chaos-", id), busLink: fmt.Sprintf("pcb%di", id),
		bus: "169.254.213.1", clients: "169.254.214.1", self: "169.254.214.2",
	}
	if said, err := exec.Command("ip", "netns", "add", i.name).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: a network namespace cannot be made here: %v: %s", err, said)
	}
	t.Cleanup(func() { i.ip(t, "netns", "del", i.name) })
	i.ip(t, "-n", i.name, "link", "set", "lo", "up")
	for link, ends := range map[string][3]string{
		fmt.Sprintf("pcb%d", id): {i.bus, "169.254.213.2", i.busLink},
		fmt.Sprintf("pcc%d", id): {i.clients, i.self, fmt.Sprintf("pcc%di", id)},
	} {
		i.ip(t, "link", "add", link, "type", "veth", "peer", "name", ends[2], "netns", i.name)
		i.ip(t, "address", "add", ends[0]+"/30", "dev", link)
		i.ip(t, "-n", i.name, "address", "add", ends[1]+"/30", "dev", ends[2])
		i.ip(t, "link", "set", link, "up")
		i.ip(t, "-n", i.name, "link", "set", ends[2], "up")
	}
	return i
}

func (i *island) ip(t *testing.T, args ...string) {
	t.Helper()
	if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, said)
	}
}

// TestPartition cuts the leader off from the bus. It refuses while others go on,
// and follows them when the link is back.
func TestPartition_TheLeaderCutOffRefusesAndCatchesUp(t *testing.T) {
	t.Parallel()
	i := newIsland(t)
	dir := t.TempDir()
	g := &grid{t: t}
	t.Cleanup(g.stop)
	routes := addresses(t, replicas)
	for n, at := range addressesOn(t, i.bus, replicas) {
		g.urls = append(g.urls, "nats://"+at)
		g.servers = append(g.servers, natsServer(t, dir, member{
			Dir: filepath.Join(dir, fmt.Sprint("nats-", n)), Listen: at, Route: routes[n], Routes: routes,
		}))
		g.servers[n].start()
	}
	g.seed(replicas)
	external := []string{"-nats", strings.Join(g.urls, ","), "-nats-replicas", fmt.Sprint(replicas)}
	g.addControllerOn(i.self, []string{"ip", "netns", "exec", i.name}, dir, external...)
	if led := g.leader(); led != 0 {
		t.Fatalf("controller %d leads", led)
	}
	for range 2 {
		g.addController(dir, external...)
	}
	l := startLoad(t, g.grpc)
	g.served(time.Now())

	i.ip(t, "-n", i.name, "link", "set", i.busLink, "down")
	cut := time.Now()
	g.served(cut.Add(3 * time.Second))
	t.Logf("others lead %s after the cut", time.Since(cut).Round(time.Millisecond))
	islander, err := rpc.Dial(g.grpc[:1], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer islander.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	orders, _, err := islander.PlaceAll(ctx, asks("islander", "web", "", 1), 0)
	cancel()
	if err == nil && orders[0].Kind == nouns.Grant && orders[0].Epoch < 3 {
		t.Errorf("the leader that was cut off granted %+v", orders[0])
	}

	i.ip(t, "-n", i.name, "link", "set", i.busLink, "up")
	eventually(t, patience, "the leader that was cut off follows", func() bool {
		mine, err := g.status(0)
		if err != nil || mine.Leading {
			return false
		}
		theirs, err := g.status(1)
		return err == nil && mine.Sequence > 0 && mine.Sequence+20 > theirs.Sequence
	})
	l.finish()
	g.settle(l)
}
