package plugin

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
	"github.com/psgrid/psg/hclspec"
)

func TestSpec_DeclaresEveryFieldAsNomadReadsIt(t *testing.T) {
	attributes := spec(hclspec.StanzaFields()).GetObject().GetAttributes()
	for name, want := range map[string]string{
		"command":     `{"Attr":{"name":"command","type":"string"}}`,
		"args":        `{"Attr":{"name":"args","type":"list(string)"}}`,
		"deadline":    `{"Attr":{"name":"deadline","type":"string"}}`,
		"labels":      `{"blockAttrs":{"name":"labels","type":"string"}}`,
		"preemptible": `{"default":{"primary":{"Attr":{"name":"preemptible","type":"bool"}},"default":{"literal":{"value":"false"}}}}`,
	} {
		var wanted nomadpb.Spec
		if err := protojson.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(attributes[name], &wanted) {
			t.Errorf("%s: got %v, want %v", name, attributes[name], &wanted)
		}
	}
	nested := attributes["gpu"].GetBlockValue().GetNested().GetObject().GetAttributes()
	if got := nested["count"].GetDefault().GetDefault().GetLiteral().GetValue(); got != "1" {
		t.Errorf("gpu.count defaults to %q", got)
	}
	if nested["share"].GetAttr() == nil {
		t.Errorf("gpu.share must stay absent when it is not given: %v", nested["share"])
	}
	if got := spec(hclspec.PluginFields()).GetObject().GetAttributes()["fail"].GetDefault().GetDefault().GetLiteral().GetValue(); got != `"closed"` {
		t.Errorf("fail defaults to %s", got)
	}
}

func packed(t testing.TB, config any) []byte {
	t.Helper()
	var out []byte
	if err := codec.NewEncoderBytes(&out, &codec.MsgpackHandle{}).Encode(config); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTaskOf_ReadsAllThatNomadSends(t *testing.T) {
	got, err := taskOf(&nomadpb.TaskConfig{
		Id: "a1/web/1", Name: "web", AllocId: "a1", NodeId: "n1", NodeName: "host-1", AllocDir: "/alloc/a1",
		Namespace: "ml", JobId: "job", TaskGroupName: "group", User: "nobody", StdoutPath: "/o", StderrPath: "/e",
		Env: map[string]string{"A": "1", "B": "1"}, DeviceEnv: map[string]string{"B": "2"},
		NetworkIsolationSpec: &nomadpb.NetworkIsolationSpec{Path: "/netns"},
		Resources: &nomadpb.Resources{
			AllocatedResources: &nomadpb.AllocatedTaskResources{Memory: &nomadpb.AllocatedMemoryResources{MemoryMb: 64, MemoryMaxMb: 128}},
			LinuxResources:     &nomadpb.LinuxResources{CpuShares: 500, CpusetCpus: "1", CpusetCgroup: "/cg"},
		},
		MsgpackDriverConfig: packed(t, map[string]any{
			"command": "run", "args": nil, "gpu": map[string]any{"count": 2, "share": nil, "memory": 1024},
		}),
	})
	want := driver.Task{
		ID: "a1/web/1", Name: "web", Alloc: "a1", Node: "n1", NodeName: "host-1", AllocDir: "/alloc/a1",
		Workload: psg.WorkloadID{Namespace: "ml", Job: "job", Group: "group"}, User: "nobody", Stdout: "/o", Stderr: "/e",
		Env: map[string]string{"A": "1", "B": "2"}, NetNS: "/netns",
		Limits: executor.Limits{CPUShares: 500, MemoryMB: 64, MemoryMaxMB: 128, CPUs: "1", Group: "/cg", Name: "a1.web"},
		Stanza: hclspec.Stanza{Command: "run", GPU: &hclspec.GPU{Count: 2, Memory: 1024}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := taskOf(nil); err != nil {
		t.Errorf("an empty task is a gate without a name: %v", err)
	}
}

func TestTaskStats_MeasuresWhatIsKnown(t *testing.T) {
	u := driver.Usage{Usage: executor.Usage{RSS: 1, Memory: 2}, UserPercent: 30, SystemPercent: 12, MHz: 840}
	stats := taskStats("a", u).GetAggResourceUsage()
	if cpu := stats.GetCpu(); cpu.GetPercent() != 42 || cpu.GetTotalTicks() != 840 || cpu.GetUserMode() != 30 {
		t.Errorf("got %v", cpu)
	}
	if got := len(stats.GetMemory().GetMeasuredFields()); got != 1 {
		t.Errorf("%d fields measured without a control group", got)
	}
	u.GroupBased = true
	if got := taskStats("a", u).GetAggResourceUsage().GetMemory(); len(got.GetMeasuredFields()) != 5 || got.GetUsage() != 2 {
		t.Errorf("got %v", got)
	}
}

func TestCoreMHz_PrefersTheBaseSpeed(t *testing.T) {
	config := &nomadpb.NomadConfig{Driver: &nomadpb.NomadDriverConfig{Topology: &nomadpb.ClientTopology{Cores: []*nomadpb.ClientTopologyCore{
		{BaseSpeed: 2000, MaxSpeed: 4000}, {MaxSpeed: 3000}, {GuessSpeed: 1000},
	}}}}
	if got := coreMHz(config); got != 2000 {
		t.Errorf("got %v", got)
	}
	if got := coreMHz(nil); got != 0 {
		t.Errorf("without a topology: got %v", got)
	}
}

func TestLogHandler_WritesWhatNomadReads(t *testing.T) {
	var out bytes.Buffer
	handler := &logHandler{out: hclog.New(&hclog.LoggerOptions{Name: "psg", Output: &out, JSONFormat: true, Level: hclog.Info})}
	log := slog.New(handler).With("alloc", "a1").WithGroup("gate")
	log.Debug("too fine")
	log.Warn("no answer", "after", time.Second)
	for _, want := range []string{`"@level":"warn"`, `"@message":"no answer"`, `"@module":"psg"`, `"alloc":"a1"`, `"gate.after":`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "too fine") || handler.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("writes below its level")
	}
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add(packed(f, map[string]any{"command": "x", "gpu": []any{map[string]any{"count": 1}}}))
	f.Add([]byte{0xc1})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := decodeConfig(data)
		if err != nil && config != nil {
			t.Errorf("both %v and %v", config, err)
		}
		// What the codec makes of it must not break the next decoder.
		_, _ = hclspec.DecodeStanza(config)
	})
}

func FuzzTaskOf(f *testing.F) {
	f.Add(packed(f, map[string]any{"command": "run", "args": []string{"a"}, "labels": map[string]string{"a\x00": "\n"}, "gpu": []any{map[string]any{"count": 2}}}))
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})                  // a map of 4 billion
	f.Add([]byte{0x81, 0xa1, 'a', 0xdd, 0xff, 0xff, 0xff, 0xff}) // a list of as many
	f.Add(bytes.Repeat([]byte{0x91}, 5000))
	f.Add([]byte{0x81, 0x01, 0xc0})
	f.Fuzz(func(t *testing.T, config []byte) {
		task, err := taskOf(&nomadpb.TaskConfig{MsgpackDriverConfig: config})
		if err == nil && task.Stanza.GPU != nil && task.Stanza.GPU.Count < 1 {
			t.Errorf("accepted %+v", task.Stanza)
		}
	})
}
