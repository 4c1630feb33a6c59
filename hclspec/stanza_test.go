package hclspec_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecodeStanza_ReadsEveryFieldInEveryForm(t *testing.T) {
	want := hclspec.Stanza{
		Command: "/bin/train", Args: []string{"--epochs", "3"}, Tenant: "search", Tier: "gold", Kind: "training",
		Labels: map[string]string{"team": "a"}, Preemptible: true, Gang: true, Deadline: 90 * time.Second,
		GPU:        &hclspec.GPU{Count: 2, Share: 250, Memory: 2048, Model: "A100", Profile: "1g.10gb", Linked: true},
		Disruption: &hclspec.Disruption{MaxUnavailable: 2, Order: "start_first"},
		Probe:      &hclspec.Probe{Port: "http", Path: "/health", Interval: 100 * time.Millisecond, Objective: 25 * time.Millisecond},
	}
	fromJSON := object(t, `{
		"command": "/bin/train", "args": ["--epochs", 3], "tenant": "search", "tier": "gold", "kind": "training",
		"labels": {"team": "a"}, "preemptible": "true", "gang": true, "deadline": "1m30s",
		"gpu": [{"count": "2", "share": 250, "memory": 2048.0, "model": "A100", "profile": "1g.10gb", "linked": true}],
		"disruption": {"max_unavailable": 2, "order": "start_first"},
		"probe": [{"port": "http", "path": "/health", "interval": "100ms", "objective": "25ms"}]}`)
	fromMsgpack := map[string]any{
		"command": "/bin/train", "args": []any{"--epochs", "3"}, "tenant": "search", "tier": "gold", "kind": "training",
		"labels": map[any]any{"team": "a"}, "preemptible": true, "gang": true, "deadline": "90s",
		"gpu":        map[string]any{"count": int64(2), "share": uint8(250), "memory": uint16(2048), "model": "A100", "profile": "1g.10gb", "linked": true},
		"disruption": map[string]any{"max_unavailable": int64(2), "order": "start_first"},
		"probe":      map[string]any{"port": "http", "path": "/health", "interval": "100ms", "objective": "25ms"},
	}
	fromHCL := map[string]any{
		"command": "/bin/train", "args": []string{"--epochs", "3"}, "tenant": "search", "tier": "gold", "kind": "training",
		"labels": []map[string]any{{"team": "a"}}, "preemptible": true, "gang": true, "deadline": "90s",
		"gpu":        []map[string]any{{"count": 2, "share": 250, "memory": json.Number("2048"), "model": "A100", "profile": "1g.10gb", "linked": true}},
		"disruption": []map[string]any{{"max_unavailable": 2, "order": "start_first"}},
		"probe":      []map[string]any{{"port": "http", "path": "/health", "interval": "100ms", "objective": "25ms"}},
	}
	for name, in := range map[string]map[string]any{"json": fromJSON, "msgpack": fromMsgpack, "hcl": fromHCL} {
		got, err := hclspec.DecodeStanza(in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestDecodeStanza_SharesACardAskedForByMemoryOrProfileAlone(t *testing.T) {
	for text, want := range map[string]hclspec.GPU{
		`{"gpu": {}}`:                             {Count: 1, Share: 1000},
		`{"gpu": {"memory": 3072}}`:               {Count: 1, Share: 0, Memory: 3072},
		`{"gpu": {"memory": 3072, "share": 500}}`: {Count: 1, Share: 500, Memory: 3072},
		`{"gpu": {"profile": "1g.10gb"}}`:         {Count: 1, Share: 0, Profile: "1g.10gb"},
		`{"gpu": {"share": null, "memory": 0}}`:   {Count: 1, Share: 1000},
	} {
		s, err := hclspec.DecodeStanza(object(t, text))
		if err != nil || s.GPU == nil || *s.GPU != want {
			t.Errorf("%s: got %+v, %v", text, s.GPU, err)
		}
	}
	for _, text := range []string{`{}`, `{"gpu": null}`, `{"gpu": []}`} {
		if s, err := hclspec.DecodeStanza(object(t, text)); err != nil || s.GPU != nil {
			t.Errorf("%s: got %+v, %v", text, s.GPU, err)
		}
	}
}

func TestDecodeStanza_NamesTheFieldAndTheProblem(t *testing.T) {
	for text, want := range map[string]string{
		`{"comand": "x"}`:                            `comand: unknown field; did you mean "command"?`,
		`{"gpu": {"cuont": 1}}`:                      `gpu.cuont: unknown field; did you mean "count"?`,
		`{"zzzzzz": 1}`:                              `zzzzzz: unknown field`,
		`{"args": "x"}`:                              `args: expected a list of strings, got string "x"`,
		`{"args": ["x"]}`:                            `args: needs a command`,
		`{"command": ["x"]}`:                         `command: expected a string, got a list`,
		`{"command": "x", "args": [{}]}`:             `args: item 0: expected a string, got an object`,
		`{"labels": {"a": [1]}}`:                     `labels: key "a": expected a string, got a list`,
		`{"labels": 3}`:                              `labels: expected a map of strings, got number 3`,
		`{"preemptible": 1}`:                         `preemptible: expected true or false, got number 1`,
		`{"deadline": "soon"}`:                       `deadline: expected a duration such as "90s", got string "soon"`,
		`{"deadline": 90}`:                           `deadline: expected a duration such as "90s", got number 90`,
		`{"deadline": "-1s"}`:                        `deadline: must not be negative, got -1s`,
		`{"gpu": 1}`:                                 `gpu: expected a block, got number 1`,
		`{"gpu": [{}, {}]}`:                          `gpu: expected one block, got 2`,
		`{"gpu": [[{}]]}`:                            `gpu: expected a block, got a list`,
		`{"gpu": {"count": 1.5}}`:                    `gpu.count: expected a whole number, got number 1.5`,
		`{"gpu": {"count": true}}`:                   `gpu.count: expected a number, got bool true`,
		`{"gpu": {"count": "NaN"}}`:                  `gpu.count: expected a number, got string "NaN"`,
		`{"gpu": {"count": 1e40}}`:                   `gpu.count: a number is too large`,
		`{"gpu": {"count": 0}}`:                      `gpu.count: must be 1 to 1024, got 0`,
		`{"gpu": {"share": "-9223372036854775808"}}`: `gpu.share: string "-9223372036854775808" is too large`,
		`{"disruption": {"max_unavailable": -1}}`:    `disruption.max_unavailable: must not be negative, got -1`,
		`{"disruption": {"order": "both"}}`:          `disruption.order: must be "start_first" or "stop_first", got "both"`,
		`{"disruption": {"order": "stop_first", "max_unavailable": 0}}`: `disruption.order: "stop_first" needs a max_unavailable of 1 or more: nothing could move`,
		`{"gpu": {"share": 1001}}`:                                      `gpu.share: must be 0 to 1000 milli-GPU, got 1001`,
		`{"gpu": {"share": 0}}`:                                         `gpu.share: 0 needs memory or profile beside it`,
		`{"gpu": {"memory": -1}}`:                                       `gpu.memory: must be 0 to 1099511627776 MiB, got -1`,
		`{"tier": [], "kind": {}, "b": 1, "a":1}`:                       `tier: expected a string, got a list; kind: expected a string, got an object; a: unknown field; b: unknown field`,
	} {
		if _, err := hclspec.DecodeStanza(object(t, text)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestGPU_DeviceAskCarriesEveryField(t *testing.T) {
	g := hclspec.GPU{Count: 2, Share: 500, Memory: 10, Model: "A100", Profile: "p", Linked: true}
	want := psg.DeviceAsk{
		Name: "gpu", Task: "train", Count: 2, MilliGPU: 500, MemoryMB: 10, Profile: "p", Linked: true,
		Constraints: []psg.Constraint{{Left: "${device.model}", Operator: psg.Equal, Right: "A100", Scope: psg.TaskScope}},
	}
	if got := g.DeviceAsk("train"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func FuzzDecodeStanza(f *testing.F) {
	f.Add(`{"command": "/bin/true", "args": ["a", 1], "labels": {"a": "b"}, "deadline": "1s", "gpu": [{"count": 2}]}`)
	f.Add(`{"gpu": {"share": "1e3", "memory": 9223372036854775808}}`)
	f.Add(`{"labels": [{"a": null}], "gpu": [[]], "": {}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var in map[string]any
		if json.Unmarshal([]byte(text), &in) != nil {
			return
		}
		s, err := hclspec.DecodeStanza(in)
		if again, errAgain := hclspec.DecodeStanza(in); fmt.Sprint(err) != fmt.Sprint(errAgain) || !reflect.DeepEqual(s, again) {
			t.Fatalf("two decodings differ: %v, %v", err, errAgain)
		}
		if err == nil && s.GPU != nil && (s.GPU.Count < 1 || s.GPU.Share < 0 || s.GPU.Memory < 0) {
			t.Fatalf("accepted %+v", *s.GPU)
		}
	})
}

func ExampleDecodeStanza() {
	_, err := hclspec.DecodeStanza(map[string]any{"gpu": map[string]any{"shrae": 500}})
	fmt.Println(err)
	// Output: gpu.shrae: unknown field; did you mean "share"?
}

func TestDocument_ListsNestedFieldsWithDefaults(t *testing.T) {
	table := hclspec.Document(hclspec.StanzaFields())
	for _, row := range []string{"| `gpu.count` | number | `1` | Number of cards. |", "| `labels` | map(string) | - |"} {
		if !strings.Contains(table, row) {
			t.Errorf("no row %q in\n%s", row, table)
		}
	}
}
