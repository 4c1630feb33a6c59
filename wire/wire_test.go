package wire

import (
	"bytes"
	"errors"
	"go/ast"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/google/go-cmp/cmp"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

const rounds = 50

func TestRoundTrip_RecordLosesNoField(t *testing.T) {
	for seed := range uint64(rounds) {
		want := newFiller(t, seed).record()
		data, err := EncodeRecord(want)
		if err != nil {
			t.Fatal(err)
		}
		again, err := EncodeRecord(want)
		if err != nil || !bytes.Equal(data, again) {
			t.Fatalf("equal records, different bytes (%v)", err)
		}
		got, err := DecodeRecord(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-encoded +decoded):\n%s", seed, diff)
		}
	}
}

func TestRoundTrip_DeltaLosesNoField(t *testing.T) {
	fill := newFiller(t, 1)
	for _, kind := range deltas {
		roundTrip(t, fill.delta(kind), EncodeDelta, DecodeDelta)
	}
}

func TestRoundTrip_OrderLosesNoField(t *testing.T) {
	fill := newFiller(t, 2)
	for range rounds {
		var o psg.Order
		fill.fill(reflect.ValueOf(&o).Elem())
		roundTrip(t, o, EncodeOrder, DecodeOrder)
		roundTrip(t, o, OrderToProto, OrderFromProto)
	}
}

func TestRoundTrip_SnapshotLosesNoField(t *testing.T) {
	var s psg.Snapshot
	newFiller(t, 3).fill(reflect.ValueOf(&s).Elem())
	roundTrip(t, &s, EncodeSnapshot, DecodeSnapshot)
}

func TestRoundTrip_ImageLosesNoField(t *testing.T) {
	var image psg.Image
	newFiller(t, 6).fill(reflect.ValueOf(&image).Elem())
	for range 12 { // more than one part
		image.Asks = append(image.Asks, image.Asks...)
	}
	roundTrip(t, image, EncodeImage, DecodeImage)
}

func TestRoundTrip_AuditRecordLosesNoField(t *testing.T) {
	fill := newFiller(t, 8)
	for range rounds {
		r := psg.AuditRecord{Sequence: 7, Epoch: 2, At: fill.time(), Previous: []byte("hash")}
		r.Entries = make([]psg.AuditEntry, 3)
		for i := range r.Entries[1:] { // the first one stays zero but for its kind
			fill.fill(reflect.ValueOf(&r.Entries[i+1]).Elem())
		}
		r.Entries[0].Kind = psg.AuditLed
		roundTrip(t, r, EncodeAuditRecord, DecodeAuditRecord)
	}
}

func TestRoundTrip_LeaseLosesNoField(t *testing.T) {
	want := psg.Leader{Name: "a", GRPC: "b:1", HTTP: "c:2"}
	data, err := EncodeLease(want, "process")
	if err != nil {
		t.Fatal(err)
	}
	if got, instance, err := DecodeLease(data); err != nil || got != want || instance != "process" {
		t.Errorf("lease = %+v %q %v", got, instance, err)
	}
}

func TestRoundTrip_SampleLosesNoField(t *testing.T) {
	fill := newFiller(t, 4)
	var want psg.Sample
	fill.fill(reflect.ValueOf(&want).Elem())
	for i := range want.Forecasts {
		want.Forecasts[i].Mean, want.Forecasts[i].Upper = 5, psg.MaxQuantity
	}
	data, err := EncodeSample(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSample(want.Node, data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-encoded +decoded):\n%s", diff)
	}
}

func TestDecodeSample_NamesWhatIsWrong(t *testing.T) {
	for want, sample := range map[string]*psgv1.NodeSample{
		"value_units: has 1 numbers for 2 series": {ValueSeries: []uint32{1, 2}, ValueUnits: []int64{1}},
		"use_units: has 2 numbers for 1 series":   {UseSeries: []uint32{1}, UseUnits: []int64{1, 2}},
		"forecast_units: has 1 numbers":           {ForecastSeries: []uint32{1}, ForecastUnits: []int64{1}},
		"declared: has 3 numbers":                 {Declared: []uint32{1, 0, 0}, Names: []string{"a"}},
		"declared: series 1 has names 1 and 0":    {Declared: []uint32{1, 1, 0, 10}, Names: []string{"a"}},
		"declared: series 1 has names 0 and 2":    {Declared: []uint32{1, 0, 2, 10}, Names: []string{"a"}},
		"units of which 0 make 1":                 {Declared: []uint32{1, 0, 0, 0}, Names: []string{"a"}},
		"forecast_units: -2 of series 7":          {ForecastSeries: []uint32{7}, ForecastUnits: []int64{1, -2}},
		"nanos:-1":                                {At: &timestamppb.Timestamp{Nanos: -1}},
	} {
		data, err := proto.Marshal(sample)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeSample("n", data); !errors.Is(err, psg.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestRoundTrip_MessagesOfTheService(t *testing.T) {
	fill := newFiller(t, 5)
	placed := fill.delta(psg.Placed{}).(psg.Placed).Placement
	roundTrip(t, placed, PlacementToProto, PlacementFromProto)
	roundTrip(t, placed.Ask, AskToProto, AskFromProto)
	roundTrip(t, placed.Request, ResourcesToProto, ResourcesFromProto)
	roundTrip(t, psg.Resources{}, ResourcesToProto, ResourcesFromProto)
	roundTrip(t, fill.delta(psg.Refused{}).(psg.Refused).Refusal, RefusalToProto, RefusalFromProto)
	var reservation psg.Reservation
	fill.fill(reflect.ValueOf(&reservation).Elem())
	reservation.Count = 7
	roundTrip(t, reservation, ReservationToProto, ReservationFromProto)
	id := placed.Ask.Workload
	if got := WorkloadIDFromProto(WorkloadIDToProto(id)); got != id {
		t.Errorf("workload ID %v came back as %v", id, got)
	}
}

func TestRoundTrip_ZeroValuesStayZero(t *testing.T) {
	for _, kind := range deltas {
		roundTrip(t, kind, EncodeDelta, DecodeDelta)
	}
	roundTrip(t, psg.Record{}, EncodeRecord, DecodeRecord)
}

func TestRoundTrip_EmptyBecomesNil(t *testing.T) {
	data, err := EncodeDelta(psg.NodeChanged{Node: psg.Node{
		Meta: map[string]string{}, Drivers: []string{}, StaticPorts: []int{}, Devices: []psg.Device{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeDelta(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(psg.NodeChanged{}, got); diff != "" {
		t.Errorf("not canonical:\n%s", diff)
	}
}

func roundTrip[T, W any](t *testing.T, want T, encode func(T) (W, error), decode func(W) (T, error)) {
	t.Helper()
	encoded, err := encode(want)
	if err != nil {
		t.Fatalf("%T: %v", want, err)
	}
	got, err := decode(encoded)
	if err != nil {
		t.Fatalf("%T: %v", want, err)
	}
	listed := cmp.Transformer("listed", func(p psg.Placements) []*psg.Placement { return slices.Collect(p.All()) })
	if diff := cmp.Diff(want, got, listed); diff != "" {
		t.Fatalf("%T (-encoded +decoded):\n%s", want, diff)
	}
}

// TestRoundTrip_KnowsEveryDelta fails when psg has a kind of delta that the
// tests above do not try.
func TestRoundTrip_KnowsEveryDelta(t *testing.T) {
	var declared, tried []string
	for _, file := range parsePSG(t) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "delta" && f.Recv != nil {
				declared = append(declared, f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	for _, d := range deltas {
		tried = append(tried, reflect.TypeOf(d).Name())
	}
	slices.Sort(declared)
	slices.Sort(tried)
	if diff := cmp.Diff(declared, tried); diff != "" {
		t.Errorf("(-declared by psg +tried here):\n%s", diff)
	}
	if kinds := (&psgv1.Delta{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields().Len(); kinds != len(declared) {
		t.Errorf("the wire has %d kinds of delta, psg %d", kinds, len(declared))
	}
}

// TestEnums_CoverEveryConstant fails when psg has a constant that has no number
// on the wire, or the wire a number that has no constant.
func TestEnums_CoverEveryConstant(t *testing.T) {
	declared := declaredConstants(t)
	check := func(name string, table []string, numbers int) {
		want := slices.Sorted(slices.Values(declared[name]))
		if got := slices.Sorted(slices.Values(table[1:])); !slices.Equal(got, want) || table[0] != "" {
			t.Errorf("%s: the table has %q, psg declares %q", name, got, want)
		}
		if numbers != len(table) {
			t.Errorf("%s: %d numbers on the wire, %d in the table", name, numbers, len(table))
		}
	}
	check("Operator", names(operators), len(psgv1.Operator_name))
	check("Scope", names(scopes), len(psgv1.Scope_name))
	check("Type", names(types), len(psgv1.WorkloadType_name))
	check("Lifecycle", names(lifecycles), len(psgv1.Lifecycle_name))
	check("State", names(states), len(psgv1.State_name))
	check("AuditKind", names(auditKinds), len(psgv1.AuditKind_name))
	check("OrderKind", names(orderKinds), len(psgv1.OrderKind_name))
}

func names[Name ~string, Number ~int32](e enum[Name, Number]) []string {
	out := make([]string, len(e))
	for i, name := range e {
		out[i] = string(name)
	}
	return out
}

// TestResources_NamedAsDimensions fails when a dimension has no field, or one
// of another name.
func TestResources_NamedAsDimensions(t *testing.T) {
	fields := (&psgv1.Resources{}).ProtoReflect().Descriptor().Fields()
	if fields.Len() != psg.Dimensions {
		t.Fatalf("%d fields for %d dimensions", fields.Len(), psg.Dimensions)
	}
	for d := range psg.Dimensions {
		if got, want := string(fields.Get(d).Name()), psg.Dimension(d).String(); got != want {
			t.Errorf("field %d is %s, the dimension %s", d, got, want)
		}
	}
}

func TestEncode_RefusesWhatCannotBeDecoded(t *testing.T) {
	for name, test := range map[string]struct {
		delta psg.Delta
		want  string
	}{
		"nil":          {nil, "deltas[1].kind: cannot encode <nil>"},
		"pointer":      {&psg.Led{}, "deltas[1].kind: cannot encode *psg.Led"},
		"state":        {psg.Placed{Placement: psg.Placement{State: "asleep"}}, `deltas[1].placed.placement.state: unknown value "asleep"`},
		"negative":     {psg.Placed{Placement: psg.Placement{Request: psg.Resources{psg.Memory: -1}}}, "deltas[1].placed.placement.request: memory_mb -1 is outside"},
		"huge":         {psg.NodeChanged{Node: psg.Node{Capacity: psg.Resources{psg.CPU: math.MaxInt64}}}, "deltas[1].node_changed.node.capacity: cpu_mhz 9223372036854775807 is outside"},
		"before dates": {psg.Moved{At: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, "deltas[1].moved.at: "},
		"operator": {psg.WorkloadChanged{Workload: psg.Workload{Affinities: []psg.Affinity{{}, {Constraint: psg.Constraint{Operator: "~"}}}}},
			`deltas[1].workload_changed.workload.affinities[1].constraint.operator: unknown value "~"`},
		"not a number": {psg.NodeObserved{Telemetry: psg.Telemetry{Metrics: map[string]psg.Stats{"b": {P95: math.NaN()}, "a": {Max: math.Inf(1)}}}},
			`deltas[1].node_observed.telemetry.metrics: "a" is not a finite number`},
		"not UTF-8":     {psg.NodeGone{Node: "\xff"}, "deltas[1].node_gone.node: "},
		"key not UTF-8": {psg.NodeChanged{Node: psg.Node{Meta: map[string]string{"\xff": "a"}}}, `deltas[1].node_changed.node.meta["\xff"]: `},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := EncodeRecord(psg.Record{Deltas: []psg.Delta{psg.Led{}, test.delta}})
			wantInvalid(t, err, test.want)
		})
	}
}

func TestDecode_RefusesBrokenMessages(t *testing.T) {
	workload := &psgv1.WorkloadID{}
	order := func(o *psgv1.Order) *psgv1.Order { o.Workload = workload; return o }
	for name, test := range map[string]struct {
		order *psgv1.Order
		want  string
	}{
		"no workload":      {&psgv1.Order{}, "workload: missing"},
		"newer kind":       {order(&psgv1.Order{Kind: 99}), "kind: unknown value 99"},
		"negative kind":    {order(&psgv1.Order{Kind: -1}), "kind: unknown value -1"},
		"negative limit":   {order(&psgv1.Order{Limit: &psgv1.Resources{Iops: -5}}), "limit: iops -5 is outside"},
		"mixed deadline":   {order(&psgv1.Order{Deadline: &durationpb.Duration{Seconds: 1, Nanos: -1}}), "deadline: "},
		"endless deadline": {order(&psgv1.Order{Deadline: &durationpb.Duration{Seconds: 1 << 36}}), "deadline: 68719476736s is longer than 292 years"},
		"no reason":        {order(&psgv1.Order{Refusal: &psgv1.Refusal{Excluded: []*psgv1.Exclusion{{}}}}), "refusal.excluded[0].reason: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := proto.Marshal(test.order)
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeOrder(data)
			wantInvalid(t, err, test.want)
		})
	}
}

func TestDecode_RefusesUnknownDelta(t *testing.T) {
	known, err := proto.Marshal(&psgv1.Record{At: timestamppb.New(time.Unix(1, 0)), Deltas: []*psgv1.Delta{
		{Kind: &psgv1.Delta_Led{Led: &psgv1.Led{Epoch: 1}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	// A second delta, {99: {}}, as a later version may write it.
	_, err = DecodeRecord(append(known, 0x1a, 3, 0x9a, 0x06, 0))
	wantInvalid(t, err, "deltas[1].kind: missing or unknown: written by a newer version")
	_, err = DecodeRecord(append(known, 0x1a))
	wantInvalid(t, err, "decode record")
}

func TestProto_ErrorsNameTheField(t *testing.T) {
	_, err := AskFromProto(nil)
	wantInvalid(t, err, "ask: missing")
	_, err = ReservationToProto(psg.Reservation{Count: -1})
	wantInvalid(t, err, "count: -1 is outside")
	_, err = Each([]*psgv1.Ask{{Workload: &psgv1.WorkloadID{}}, nil}, AskFromProto)
	wantInvalid(t, err, "[1]: ")
}

func wantInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, psg.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want invalid: … %s …", err, want)
	}
}

// FuzzDecodeSample: bytes either fail with an error, or give a sample that
// encodes and decodes to itself.
func FuzzDecodeSample(f *testing.F) {
	fill := newFiller(f, 8)
	var sample psg.Sample
	fill.fill(reflect.ValueOf(&sample).Elem())
	sample.Forecasts = nil
	data, err := EncodeSample(sample)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := DecodeSample("n", data)
		if err != nil {
			if !errors.Is(err, psg.ErrInvalid) {
				t.Fatalf("not marked invalid: %v", err)
			}
			return
		}
		again, err := EncodeSample(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := DecodeSample("n", again)
		if diff := cmp.Diff(first, second); err != nil || diff != "" {
			t.Fatalf("%v (-first +second):\n%s", err, diff)
		}
	})
}

// FuzzDecodeRecord: bytes either fail with an error, or give a record that
// encodes and decodes to itself.
func FuzzDecodeRecord(f *testing.F) {
	fill := newFiller(f, 6)
	for _, kind := range deltas {
		data, err := EncodeRecord(psg.Record{Epoch: 1, At: fill.time(), Deltas: []psg.Delta{fill.delta(kind)}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{0x1a, 3, 0x9a, 0x06, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := DecodeRecord(data)
		if err != nil {
			if !errors.Is(err, psg.ErrInvalid) {
				t.Fatalf("not marked invalid: %v", err)
			}
			return
		}
		encoded, err := EncodeRecord(first)
		if err != nil {
			t.Fatalf("decoded what cannot be encoded: %v", err)
		}
		second, err := DecodeRecord(encoded)
		if err != nil || !cmp.Equal(first, second) {
			t.Fatalf("changed on the way (%v):\n%s", err, cmp.Diff(first, second))
		}
	})
}

// BenchmarkRecord writes and reads one cycle's record of 1,000 grants.
func BenchmarkRecord(b *testing.B) {
	var r psg.Record
	fill := newFiller(b, 1)
	for range 1000 {
		r.Deltas = append(r.Deltas, fill.delta(psg.Placed{}))
	}
	data, err := EncodeRecord(r)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EncodeRecord(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeRecord(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
