package bus

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus/server"
)

func TestLedger_SaysThatARecordIsTooLarge(t *testing.T) {
	ledger := open(t, t.TempDir()).Ledger()
	half := psg.NodeGone{Node: psg.NodeID(strings.Repeat("n", server.MaxPayload/2))}
	if err := ledger.Check(half); err != nil {
		t.Errorf("Check = %v for half of what one message takes", err)
	}
	whole := psg.NodeGone{Node: half.Node + half.Node}
	if err := ledger.Check(whole); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("Check = %v, want ErrInvalid: no record takes it", err)
	}
	large := psg.Record{Sequence: 1, Deltas: []psg.Delta{half, half}}
	if err := ledger.Append(t.Context(), large); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("Append = %v, want ErrInvalid: it never will be appended", err)
	}
}

func TestConnect_KeepsAPasswordOutOfItsError(t *testing.T) {
	_, err := Connect(Config{URLs: []string{"nats://controller:sec%zzret@127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)})
	if err == nil || strings.Contains(err.Error(), "ret@") {
		t.Errorf("Connect = %v, want an error without the password", err)
	}
}

func TestEnough_WantsDirectGetsOfManyMessages(t *testing.T) {
	for version, want := range map[string]bool{
		"2.10.29": false, "1.4.1": false, "2.11.0": true, "2.15.2": true, "3.0.0-beta.1": true, "": true, "odd": true,
	} {
		if got := enough(version) == nil; got != want {
			t.Errorf("enough(%q) = %t", version, got)
		}
	}
}
