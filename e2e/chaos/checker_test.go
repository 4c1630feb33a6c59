package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// checker adds up the log by itself, from the bytes on the bus: it imports
// neither the ledger nor the conversions of those it checks.
type checker struct {
	t        *testing.T
	epoch    uint64
	records  uint64
	capacity map[string]int64 // MHz, by node
	held     map[string]int64
	asked    map[string]bool
	placed   map[string]*psgv1.Placement // what holds room, by ask
	everOn   map[string]string           // node of an ask's first placement
	over     map[string]bool
	refused  map[string]bool
	decided  map[string]bool // every decision, for the orders
}

// check reads the whole log.
func check(t *testing.T, js jetstream.JetStream) *checker {
	t.Helper()
	c := &checker{
		t: t, capacity: map[string]int64{}, held: map[string]int64{}, asked: map[string]bool{},
		placed: map[string]*psgv1.Placement{}, everOn: map[string]string{}, over: map[string]bool{},
		refused: map[string]bool{}, decided: map[string]bool{},
	}
	var log [][]byte
	eventually(t, patience, "the ledger is read", func() bool { // a server just started loses requests
		var err error
		log, err = readLog(t.Context(), js)
		return err == nil
	})
	for _, data := range log {
		c.records++
		var record psgv1.Record
		if err := proto.Unmarshal(data, &record); err != nil {
			t.Fatalf("record %d: %v", c.records, err)
		}
		c.record(&record)
	}
	return c
}

// readLog returns the bytes of every record, or an error where it cannot.
func readLog(ctx context.Context, js jetstream.JetStream) (log [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "PSG_LEDGER")
	if err != nil {
		return nil, err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for last := stream.CachedInfo().State.LastSeq; uint64(len(log)) < last; {
		message, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := message.Metadata()
		if err != nil || meta.Sequence.Stream != uint64(len(log)+1) {
			return nil, fmt.Errorf("record %d follows record %d: %w", meta.Sequence.Stream, len(log), err)
		}
		log = append(log, message.Data())
	}
	return log, nil
}

func (c *checker) faulty(format string, args ...any) {
	c.t.Errorf("record %d: %s", c.records, fmt.Sprintf(format, args...))
}

func (c *checker) record(r *psgv1.Record) {
	if led := r.GetDeltas()[0].GetLed(); led != nil {
		if led.GetEpoch() <= c.epoch {
			c.faulty("epoch %d after epoch %d", led.GetEpoch(), c.epoch)
		}
		c.epoch = led.GetEpoch()
	}
	if r.GetEpoch() != c.epoch {
		c.faulty("written by epoch %d while epoch %d leads", r.GetEpoch(), c.epoch)
	}
	for _, d := range r.GetDeltas() {
		switch {
		case d.GetNodeChanged() != nil:
			n := d.GetNodeChanged().GetNode()
			c.capacity[n.GetId()] = n.GetCapacity().GetCpuMhz()
		case d.GetAsked() != nil:
			c.asked[d.GetAsked().GetAsk().GetId()] = true
		case d.GetRefused() != nil:
			c.refused[d.GetRefused().GetRefusal().GetAsk()] = true
			c.decided[decision(c.records, d.GetRefused().GetRefusal().GetAsk())] = true
		case d.GetPlaced() != nil:
			c.place(d.GetPlaced().GetPlacement())
		case d.GetFreed() != nil:
			c.free(d.GetFreed().GetAsk())
		}
	}
	for node, held := range c.held {
		if held > c.capacity[node] {
			c.faulty("node %s holds %d MHz of %d", node, held, c.capacity[node])
		}
	}
}

func (c *checker) place(p *psgv1.Placement) {
	ask := p.GetAsk().GetId()
	switch {
	case !c.asked[ask]:
		c.faulty("%s is placed and was never asked", ask)
	case c.over[ask]:
		c.faulty("%s is placed and was over", ask)
	case c.placed[ask] != nil:
		c.faulty("%s is placed on %s and again on %s", ask, c.placed[ask].GetNode(), p.GetNode())
	}
	c.placed[ask], c.everOn[ask] = p, p.GetNode()
	c.held[p.GetNode()] += p.GetRequest().GetCpuMhz()
	c.decided[decision(c.records, ask)] = true
}

func (c *checker) free(ask string) {
	if c.over[ask] {
		c.faulty("%s is freed twice", ask)
	}
	if p := c.placed[ask]; p != nil {
		c.held[p.GetNode()] -= p.GetRequest().GetCpuMhz()
		delete(c.placed, ask)
	}
	c.over[ask] = true
	c.decided[decision(c.records, ask)] = true
}

// against compares the log with what the load was told.
func (c *checker) against(l *load) {
	c.t.Helper()
	for ask, node := range l.granted {
		if p := c.placed[ask]; p == nil {
			c.t.Errorf("%s was granted %s and holds nothing", ask, node)
		} else if p.GetNode() != node {
			c.t.Errorf("%s was granted %s and holds room on %s", ask, node, p.GetNode())
		}
	}
	waiting := 0 // still: what was told to wait may have been placed since
	for ask := range l.waiting {
		switch {
		case c.placed[ask] != nil:
		case !c.refused[ask]:
			c.t.Errorf("%s was told to wait, and nothing in the log says so", ask)
		case !c.over[ask]:
			waiting++
		}
	}
	for ask := range c.asked {
		if c.placed[ask] == nil && !c.over[ask] && !c.refused[ask] {
			c.t.Errorf("%s was accepted and has no answer", ask)
		}
	}
	for ask, p := range c.placed {
		reservation, _, _ := strings.Cut(ask, "/")
		if l.released[reservation] || l.expiring[reservation] {
			c.t.Errorf("reservation %s is over and holds room on %s", ask, p.GetNode())
		}
	}
	tight := c.held["tight"] / instance
	if waiting > 0 && tight != tightRoom {
		c.t.Errorf("the tight node holds %d instances while %d wait, want all %d", tight, waiting, tightRoom)
	}
	c.t.Logf("%d records, %d epochs, %d asks, %d hold room, %d granted to callers; all as it should be: %t",
		c.records, c.epoch, len(c.asked), len(c.placed), len(l.granted), !c.t.Failed())
}
