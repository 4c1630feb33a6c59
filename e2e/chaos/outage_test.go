package chaos

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// What a round kills.
const (
	serverAlone         = "a NATS server"
	leaderAlone         = "the leader"
	leaderAndServer     = "the leader and a NATS server"
	leaderAndNATSLeader = "the leader and the NATS server that leads the ledger"
)

// known is the sum of the timeouts that must run out before somebody else can
// answer, at most: a lease that was renewed just before the kill, and NATS's
// longest election. What a takeover takes beyond it is ours to explain.
var known = map[string]time.Duration{
	serverAlone: natsElection, leaderAlone: leaseTTL,
	leaderAndServer: natsElection, leaderAndNATSLeader: natsElection,
}

const (
	leaseTTL     = 2 * time.Second
	natsElection = 9 * time.Second
)

// outages are how long nobody answered, by what was killed.
type outages struct {
	mu   sync.Mutex
	took map[string][]time.Duration
}

func (o *outages) note(kind string, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.took == nil {
		o.took = map[string][]time.Duration{}
	}
	o.took[kind] = append(o.took[kind], took)
}

// log prints the distribution for each kind, and the worst as a ratio to the
// timeouts that are in it.
func (o *outages) log(t *testing.T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, kind := range []string{leaderAlone, serverAlone, leaderAndServer, leaderAndNATSLeader} {
		took := o.took[kind]
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		worst := took[len(took)-1]
		t.Logf("from the kill of %s to the next answer, %d times: p50 %.2f s, p95 %.2f s, max %.2f s, which is %.2f of the known timeouts",
			kind, len(took), took[len(took)/2].Seconds(), took[len(took)*95/100].Seconds(), worst.Seconds(),
			worst.Seconds()/known[kind].Seconds())
	}
}
