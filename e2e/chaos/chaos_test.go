package chaos

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/nats-io/nats.go"

	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// TestChaos kills the leader, a NATS server, or both, at random moments under
// load, and then reads the log. Each round waits for a timeout of PSG's or of
// NATS's, so several grids are played side by side.
func TestChaos_NothingIsLostOrPlacedTwiceWhateverIsKilled(t *testing.T) {
	var outages outages
	t.Cleanup(func() { outages.log(t) }) // once all grids have ended
	for n := range *grids {
		t.Run(fmt.Sprint("grid-", n), func(t *testing.T) {
			t.Parallel()
			rounds := *kills / *grids
			if n < *kills%*grids {
				rounds++
			}
			playRounds(t, rounds, &outages)
		})
	}
}

// playRounds kills so many times in one grid. In every fifth round the next kill
// does not wait until the cluster is whole again after the last: what is found in
// the log must hold then too, but how long it took to serve says nothing.
func playRounds(t *testing.T, rounds int, outages *outages) {
	g := newGrid(t)
	g.leader()
	l := startLoad(t, g.grpc)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for round := range rounds {
		g.served(time.Now())
		whole := round%5 < 4
		if whole {
			g.whole()
		}
		pause(t, time.Duration(rng.IntN(700))*time.Millisecond)
		victims := []*process{g.controllers[g.leader()]}
		kind := leaderAlone
		switch rng.IntN(4) {
		case 0:
			victims, kind = []*process{g.servers[rng.IntN(replicas)]}, serverAlone
		case 1:
			victims, kind = append(victims, g.servers[rng.IntN(replicas)]), leaderAndServer
		case 2:
			victims, kind = append(victims, g.servers[g.ledgerLeader()]), leaderAndNATSLeader
		}
		killed := time.Now()
		for _, victim := range victims {
			victim.kill()
		}
		g.served(killed)
		outage := time.Since(killed)
		if whole {
			outages.note(kind, outage)
		}
		if outage > 2*known[kind] {
			g.said()
		}
		t.Logf("%s after %s, cluster whole before: %t", outage.Round(time.Millisecond), names(victims), whole)
		for _, victim := range victims {
			victim.start()
		}
	}
	l.finish()
	g.settle(l)
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
