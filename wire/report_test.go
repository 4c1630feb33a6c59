package wire

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

func TestRoundTrip_ReportLosesNoField(t *testing.T) {
	var want psg.Report
	newFiller(t, 11).fill(reflect.ValueOf(&want).Elem())
	data, err := EncodeReport(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeReport(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-encoded +decoded):\n%s", diff)
	}
	roundTrip(t, want, ReportToProto, ReportFromProto)
}

func TestReport_StatesCoverEveryConstant(t *testing.T) {
	declared := declaredConstants(t)["ReportState"]
	if len(declared) != len(psgv1.ReportState_name)-1 || len(declared) != len(reportStates)-1 {
		t.Errorf("psg declares %q; the wire has %d states, the table %d", declared, len(psgv1.ReportState_name)-1, len(reportStates)-1)
	}
}

func TestReport_WithoutAStateIsRefused(t *testing.T) {
	if _, err := EncodeReport(psg.Report{Kind: psg.Freeze, State: "half"}); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("encoded a report of an unknown state: %v", err)
	}
	if _, err := DecodeReport([]byte{0xff}); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("decoded garbage: %v", err)
	}
}

// FuzzDecodeOrder: no bytes that reach an agent make it panic, and what it takes
// can be written again.
func FuzzDecodeOrder(f *testing.F) {
	for seed := range uint64(4) {
		var o psg.Order
		newFiller(f, seed).fill(reflect.ValueOf(&o).Elem())
		data, err := EncodeOrder(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := DecodeOrder(data)
		if err != nil {
			return
		}
		if _, err := EncodeOrder(o); err != nil {
			t.Errorf("decoded what cannot be encoded: %v", err)
		}
	})
}
