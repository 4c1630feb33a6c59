package chaos

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/nats-io/nats.go"

	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// TestChaos kills the leader, a NATS server, or both, at random moments under
// load, and then reads the log.
func TestChaos_NothingIsLostOrPlacedTwiceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	g.leader()
	l := startLoad(t, g.grpc)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	var outages []time.Duration
	for range *kills {
		g.served(time.Now()) // everything stands again
		pause(t, time.Duration(rng.IntN(700))*time.Millisecond)
		victims := []*process{g.controllers[g.leader()]}
		switch rng.IntN(3) {
		case 0:
			victims = []*process{g.servers[rng.IntN(replicas)]}
		case 1:
			victims = append(victims, g.servers[rng.IntN(replicas)])
		}
		killed := time.Now()
		for _, victim := range victims {
			victim.kill()
		}
		g.served(killed)
		outage := time.Since(killed)
		outages = append(outages, outage)
		t.Logf("%s after %s", outage.Round(time.Millisecond), names(victims))
		for _, victim := range victims {
			victim.start()
		}
	}
	l.finish()
	g.settle(l)
	slices.Sort(outages)
	t.Logf("time from a kill to the next answer: median %s, worst %s", outages[len(outages)/2], outages[len(outages)-1])
}

func names(of []*process) (all []string) {
	for _, p := range of {
		all = append(all, p.name)
	}
	return all
}

// served waits for the answer to something that was asked after a moment.
func (g *grid) served(since time.Time) {
	g.t.Helper()
	probe := startProbe(g)
	defer probe.finish()
	eventually(g.t, patience, "an answer", func() bool { return probe.last.Load() > since.UnixNano() })
}

// settle waits until reservations have expired, checks the log and the audit.
func (g *grid) settle(l *load) {
	g.t.Helper()
	js, _ := g.connect()
	g.leader()
	pause(g.t, 2*time.Second) // the last reservations expire, and the audit catches up
	g.served(time.Now())
	check(g.t, js).against(l)
	eventually(g.t, 30*time.Second, "the audit has told everything", func() bool {
		said, err := exec.Command(psg, "audit", "verify", "-nats", strings.Join(g.urls, ",")).CombinedOutput()
		if err != nil {
			g.t.Fatalf("psg audit verify: %v\n%s", err, said)
		}
		return strings.Contains(string(said), "Not told yet   0")
	})
}

// pause lets time pass under load.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// TestPaused stops the leader for longer than its lease: when it wakes another
// leads, and it commits nothing and orders nothing.
func TestPaused_LeaderThatWakesDoesNothing(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	js, conn := g.connect()
	orders := make(chan *nats.Msg, 1<<16)
	if _, err := conn.ChanSubscribe("psg.v1.order.>", orders); err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, g.grpc)
	for range 3 {
		g.served(time.Now())
		stale := g.leader()
		known, err := g.status(stale)
		if err != nil {
			t.Fatal(err)
		}
		before, stopped := known.Epoch, time.Now()
		g.controllers[stale].signal(syscall.SIGSTOP)
		g.served(stopped.Add(3 * time.Second)) // by whoever leads now
		g.controllers[stale].signal(syscall.SIGCONT)
		eventually(t, 20*time.Second, "the stale leader follows", func() bool {
			s, err := g.status(stale)
			return err == nil && s.Epoch > before
		})
	}
	l.finish()
	g.settle(l)
	c := check(t, js) // fails where a record is not of the epoch that leads
	for len(orders) > 0 {
		var order psgv1.Order
		if err := proto.Unmarshal((<-orders).Data, &order); err != nil {
			t.Fatal(err)
		}
		if !c.decided[decision(order.GetSequence(), order.GetAsk())] {
			t.Errorf("an order was given that no record decided: %v", &order)
		}
	}
}
