package psg

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func FuzzWorkloadID(f *testing.F) {
	for _, id := range []WorkloadID{{"default", "web", "g"}, {"", "a/b", "ü x"}, {"n.s", "%2F", "/"}, {}} {
		f.Add(id.Namespace, id.Job, id.Group)
	}
	f.Fuzz(func(t *testing.T, namespace, job, group string) {
		id := WorkloadID{namespace, job, group}
		if back, ok := ParseWorkloadID(id.String()); !ok || back != id {
			t.Errorf("ParseWorkloadID(%q) = %+v, %t, want %+v", id.String(), back, ok, id)
		}
	})
}

func TestParseWorkloadID_RefusesWhatStringNeverWrites(t *testing.T) {
	for _, s := range []string{"", "a/b", "a/b/c/d", "a/%zz/c"} {
		if id, ok := ParseWorkloadID(s); ok {
			t.Errorf("ParseWorkloadID(%q) = %+v", s, id)
		}
	}
}

func TestResources_Arithmetic(t *testing.T) {
	asked, free := Resources{CPU: 500, Memory: 300}, Resources{CPU: 600, Memory: 256, Disk: -5}
	if asked.Fits(free) {
		t.Error("300 MiB fit in 256")
	}
	if got, want := asked.Shortfall(free), (Resources{Memory: 44}); got != want {
		t.Errorf("Shortfall = %s, want %s", got, want)
	}
	if got := asked.Shortfall(Resources{CPU: 500, Memory: -10}); got[Memory] != 300 {
		t.Errorf("an overfull node lacks %d MiB, want what is asked", got[Memory])
	}
	if got := asked.Add(free).Sub(free); got != asked {
		t.Errorf("Add then Sub = %s", got)
	}
	if got := asked.Max(free); got[CPU] != 600 || got[Memory] != 300 || got[Disk] != 0 {
		t.Errorf("Max = %s", got)
	}
	if got := asked.String(); got != "cpu_mhz=500 memory_mb=300" {
		t.Errorf("String = %q", got)
	}
	if got := (Resources{}).String(); got != "nothing" {
		t.Errorf("String = %q", got)
	}
}

func TestResources_Validate(t *testing.T) {
	for _, wrong := range []Resources{{Memory: -1}, {IOPS: MaxQuantity + 1}} {
		if err := wrong.Validate(); err == nil {
			t.Errorf("%v is valid", wrong)
		}
	}
	if err := (Resources{CPU: MaxQuantity}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestResources_JSON(t *testing.T) {
	var want Resources
	for d := range want {
		want[d] = int64(d + 1)
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Resources
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("%s reads back as %v, %v", data, got, err)
	}
	if err := json.Unmarshal([]byte(`{"memroy_mb": 1}`), &got); err == nil || !strings.Contains(err.Error(), "memroy_mb") {
		t.Errorf("a misspelt dimension: %v", err)
	}
}

func TestBitmap_IsASetOfRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rng.IntN(300)
		b, set := NewBitmap(n), map[int]bool{}
		for range 3 * n {
			row := rng.IntN(n)
			if rng.IntN(3) == 0 {
				b.Clear(row)
				delete(set, row)
			} else {
				b.Set(row)
				set[row] = true
			}
		}
		rows := slices.Collect(b.All())
		if b.Count() != len(set) || len(rows) != len(set) || !slices.IsSorted(rows) {
			t.Fatalf("%d rows listed, %d counted, want %d ascending", len(rows), b.Count(), len(set))
		}
		for row := range n + 70 {
			if b.Has(row) != set[row] {
				t.Fatalf("Has(%d) = %t", row, b.Has(row))
			}
		}
		other := NewBitmap(n)
		other.Set(rng.IntN(n))
		both := slices.Clone(b)
		both.Or(other)
		for row := range n {
			if both.Has(row) != (b.Has(row) || other.Has(row)) {
				t.Fatalf("Or is wrong at row %d", row)
			}
		}
	}
}

func TestRuling_AddsUpItsColumns(t *testing.T) {
	rows := func(rows ...int) Bitmap {
		b := NewBitmap(3)
		for _, row := range rows {
			b.Set(row)
		}
		return b
	}
	ruling := Ruling{
		Denials: []Denial{{Reason{"policy a", "full"}, rows(0, 2)}, {Reason{"policy b", "pci"}, rows(2)}},
		Scorings: []Scoring{
			{Reason: Reason{"policy c", "quiet"}, Points: 1500, Rows: rows(0, 1)},
			{Reason: Reason{"policy c", "busy"}, Points: -500, Rows: rows(1)},
		},
	}
	if got := slices.Collect(ruling.Denied(3).All()); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("Denied = %v", got)
	}
	if why := ruling.Why(2); len(why) != 2 || why[1].Text != "pci" {
		t.Errorf("Why(2) = %v", why)
	}
	if why := ruling.Why(1); why != nil {
		t.Errorf("Why(1) = %v, want none", why)
	}
	if got := ruling.Points(3); !slices.Equal(got, []int64{1500, 1000, 0}) {
		t.Errorf("Points = %v", got)
	}
}

func TestSnapshot_FindsWhatItHolds(t *testing.T) {
	s := Snapshot{
		Nodes:      []Node{{ID: "b"}, {ID: "a"}},
		Workloads:  []Workload{{ID: WorkloadID{"z", "a", "g"}}, {ID: WorkloadID{"a", "z", "g"}, Count: 7}},
		Placements: PlacementsOf(Placement{Ask: Ask{ID: "2"}}, Placement{Ask: Ask{ID: "1"}}),
	}
	s.Sort()
	if row, ok := s.Row("b"); !ok || row != 1 {
		t.Errorf("Row(b) = %d, %t", row, ok)
	}
	if _, ok := s.Row("c"); ok {
		t.Error("found a node that is not there")
	}
	if w := s.Workload(WorkloadID{"a", "z", "g"}); w == nil || w.Count != 7 {
		t.Errorf("Workload = %v", w)
	}
	if w := s.Workload(WorkloadID{"a", "a", "g"}); w != nil {
		t.Errorf("found workload %v", w.ID)
	}
	if deltas := s.Deltas(); len(deltas) != 6 {
		t.Errorf("%d deltas, want 6", len(deltas))
	}
}

func TestReservation_Validate(t *testing.T) {
	right := Reservation{ID: "r", Count: 1, Hold: time.Minute}
	if err := right.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Reservation){
		"request_id": func(r *Reservation) { r.ID = "" },
		"count":      func(r *Reservation) { r.Count = MaxReservationCount + 1 },
		"hold":       func(r *Reservation) { r.Hold = -1 },
		"memory_mb":  func(r *Reservation) { r.Alloc, r.Request = "a", Resources{Memory: -1} },
	} {
		wrong := right
		change(&wrong)
		if err := wrong.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Validate = %v", name, err)
		}
	}
}

func TestDevice_AnswersToItsNames(t *testing.T) {
	card := Device{Vendor: "nvidia", Type: "gpu", Model: "A100"}
	for name, want := range map[string]bool{
		"gpu": true, "nvidia/gpu": true, "nvidia/gpu/A100": true,
		"nvidia": false, "amd/gpu": false, "nvidia/gpu/H100": false, "": false,
	} {
		if card.Named(name) != want {
			t.Errorf("Named(%q) = %t", name, !want)
		}
	}
}

func TestState_HoldsOrWaitsOrIsOver(t *testing.T) {
	for _, state := range []State{Submitted, Denied, Queued, Reserved, Steered, Gated, Elsewhere, Granted, Running, Moving, Lost, Released} {
		status := AskStatus{State: state}
		kinds := 0
		for _, is := range []bool{state.Holds(), status.Pending(), status.Over()} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s is %d of holding, pending and over, want exactly one", state, kinds)
		}
	}
}
