package bus

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
)

// What a server that lags has yet to hear of comes from the stream's leader.
func TestRead_FromTheLeaderGivesTheSameOneByOne(t *testing.T) {
	bus := open(t, t.TempDir())
	for sequence := uint64(1); sequence <= 3; sequence++ {
		if err := bus.Ledger().Append(t.Context(), record(sequence, 1)); err != nil {
			t.Fatal(err)
		}
	}
	direct, led := map[uint64]string{}, map[uint64]string{}
	into := func(seen map[uint64]string) visitor {
		return func(m message) error {
			if m.foreign {
				t.Errorf("record %d is taken for one that no Ledger appended", m.position)
			}
			seen[m.position] = string(m.data)
			return nil
		}
	}
	if at, err := bus.batch(t.Context(), ledgerStream, 0, into(direct)); at != 3 || err != nil {
		t.Fatalf("a direct get came to %d, %v", at, err)
	}
	for after := range uint64(3) {
		if at, err := bus.fromLeader(t.Context(), ledgerStream, after, into(led)); at != after+1 || err != nil {
			t.Fatalf("after %d the leader came to %d, %v", after, at, err)
		}
	}
	for position, data := range direct {
		if led[position] != data {
			t.Errorf("record %d is another from the leader", position)
		}
	}
	if at, err := bus.fromLeader(t.Context(), ledgerStream, 3, into(led)); at != 3 || !errors.Is(err, errLostBatch) {
		t.Errorf("beyond the end: %d, %v", at, err)
	}
	broken := errors.New("broken")
	if _, err := bus.fromLeader(t.Context(), ledgerStream, 0, func(message) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a visitor's error came back as %v", err)
	}
}

// Whoever hears what a reader is sent may have it sent messages of another stream.
func TestRead_TakesNoMessageOfAnotherStream(t *testing.T) {
	bus := open(t, t.TempDir())
	if err := bus.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Fatal(err)
	}
	intruder := again(t, bus)
	const other = "PSG_ELSEWHERE" // whose own answers come later, if ever
	_, err := intruder.conn.Subscribe("$JS.API.DIRECT.GET."+other, func(asked *nats.Msg) {
		_ = intruder.conn.PublishRequest("$JS.API.DIRECT.GET."+ledgerStream, asked.Reply, asked.Data)
	})
	if err := errors.Join(err, intruder.conn.Flush()); err != nil {
		t.Fatal(err)
	}
	_, err = bus.batch(t.Context(), other, 0, func(m message) error {
		return fmt.Errorf("message %d of another stream", m.position)
	})
	if !errors.Is(err, errLostBatch) {
		t.Error(err)
	}
}
