package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEmbedded kills controllers that bring the NATS cluster themselves: with
// the leader a NATS server goes, often the one that leads the ledger's stream.
func TestEmbedded_LeaderIsKilledWithItsNATSServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := &grid{t: t}
	t.Cleanup(g.stop)
	clients, routes := addresses(t, replicas), addresses(t, replicas)
	issuer := filepath.Join(dir, "issuer.nk")
	g.operate(issuer)
	for i := range replicas {
		g.urls = append(g.urls, "nats://"+clients[i])
		g.addController(dir, "-data-dir", filepath.Join(dir, fmt.Sprint("bus-", i)), "-nats-listen", clients[i], "-nats-issuer", issuer,
			"-nats-cluster", routes[i], "-nats-routes", strings.Join(routes, ","), "-nats-replicas", fmt.Sprint(replicas))
	}
	g.leader()
	g.intrude(replicas)
	first := g.controllers[g.leader()]
	first.kill() // it does not know yet
	first.start()
	l := startLoad(t, g.grpc)
	for range 3 {
		g.served(time.Now())
		leader := g.controllers[g.leader()]
		killed := time.Now()
		leader.kill()
		g.served(killed)
		t.Logf("%s after %s was killed with its NATS server", time.Since(killed).Round(time.Millisecond), leader.name)
		leader.start()
	}
	l.finish()
	g.settle(l)
}
