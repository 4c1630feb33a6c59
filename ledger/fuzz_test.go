package ledger

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// Whatever is in the stream is folded or refused, and what was folded is a state
// whose image gives it again.
func FuzzApply(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(written(f, rand.New(rand.NewPCG(seed, 2))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := led(t)
		for len(data) >= 2 {
			size := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
			record, err := wire.DecodeRecord(data[2 : 2+size])
			data = data[2+size:]
			if err != nil {
				continue
			}
			record.Sequence, record.Epoch = s.Sequence()+1, s.Epoch()
			if s.Apply(record) != nil {
				return // nothing goes on from there
			}
			s.Admission()
			s.Snapshot(record.At)
		}
		again, err := FromImage(s.Image())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Asks(), s.Asks()) || !reflect.DeepEqual(again.Pending(), s.Pending()) {
			t.Fatalf("the state of an image is another: %s, want %s", shows(t, again.Image()), shows(t, s.Image()))
		}
		checkHoldings(t, again)
		checkHoldings(t, s)
		checkJobs(t, s)
	})
}

// written is a log of some records, each after its length.
func written(f *testing.F, rng *rand.Rand) []byte {
	s := led(f)
	var log []byte
	for range 60 {
		d := history(rng)
		if apply(s, d) != nil {
			continue
		}
		data, err := wire.EncodeRecord(psg.Record{Epoch: 1, At: start, Deltas: []psg.Delta{d}})
		if err != nil {
			f.Fatal(err)
		}
		log = append(binary.BigEndian.AppendUint16(log, uint16(len(data))), data...)
	}
	return log
}
