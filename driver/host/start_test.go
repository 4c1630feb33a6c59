package host_test

import (
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/host"
)

func TestStart_TellsWhatThePluginIs(t *testing.T) {
	w := start(t, []any{"127.0.0.1:1"})
	info := w.Info()
	if info.Name != "psg" || !info.Healthy || info.Health != "healthy" || info.Version == "" {
		t.Errorf("got %+v", info)
	}
}

func TestStart_RefusesAWrongConfig(t *testing.T) {
	for want, config := range map[string]map[string]any{
		"controllers: is required":   {},
		"controler: unknown field":   {"controllers": []any{"h:1"}, "controler": "x"},
		"tls.keys: unknown field":    {"controllers": []any{"h:1"}, "tls": []any{map[string]any{"keys": "x"}}},
		`fail: must be "open"`:       {"controllers": []any{"h:1"}, "fail": "ajar"},
		"tls.ca: open /no/such/file": {"controllers": []any{"h:1"}, "tls": map[string]any{"ca": "/no/such/file"}},
	} {
		_, err := host.Start(t.Context(), host.Config{Binary: binary, Dir: t.TempDir(), Node: "n", Plugin: config})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", config, err)
		}
	}
}

func TestStartTask_RefusesAWrongStanza(t *testing.T) {
	w := start(t, []any{"127.0.0.1:1"})
	for want, config := range map[string]map[string]any{
		"gpu.cuont: unknown field":      {"gpu": map[string]any{"cuont": 1}},
		"gpu.count: must be 1 to 1024":  {"gpu": map[string]any{"count": 0}},
		"deadline: expected a duration": {"deadline": "soon"},
		`user "no-such-user"`:           shell("true"),
	} {
		task := w.task("web", config)
		task.User = "no-such-user"
		if _, err := w.StartTask(t.Context(), task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", config, err)
		}
	}
}

func TestRunAlloc_PassesItsGatesFirst(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	w := start(t, []any{c.address})
	c.refuses(psg.Queued, "no room: memory_mb short by 512")
	type result struct {
		ids []host.TaskID
		err error
	}
	ran := make(chan result, 1)
	go func() {
		ids, err := w.RunAlloc(t.Context(), host.Alloc{
			ID: "a1", Workload: psg.WorkloadID{Namespace: "default", Job: "job", Group: "group"},
			Gates: []host.Task{{Name: "gate"}},
			Tasks: []host.Task{{Name: "web", Config: shell("echo $NVIDIA_VISIBLE_DEVICES on $PSG_NODE; exit 3")}},
		})
		ran <- result{ids, err}
	}()
	eventually(t, "event", w.said("queued: no room: memory_mb short by 512"))
	c.refuses(psg.Denied, "policy gpu_colocation")
	eventually(t, "event", w.said("denied: policy gpu_colocation"))
	c.grants(psg.DeviceShare{Device: "GPU-1"})
	r := <-ran
	if r.err != nil || len(r.ids) != 1 {
		t.Fatalf("got %v, %v", r.ids, r.err)
	}
	eventually(t, "event", w.said("granted on host-1, devices GPU-1"))
	if exit := w.wait(r.ids[0]); exit.Code != 3 {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "output", func() bool { return w.log("web", "stdout") == "GPU-1 on node-1\n" })
}

func TestStop_IsImmediateWhileGated(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	w := start(t, []any{c.address})
	id := w.start(w.task("gate", nil))
	eventually(t, "ask", func() bool { return len(c.asks()) == 1 })
	began := time.Now()
	if err := w.Stop(t.Context(), id, "", time.Minute); err != nil {
		t.Fatal(err)
	}
	if exit := w.wait(id); exit.OK() || time.Since(began) > 100*time.Millisecond {
		t.Errorf("got %+v after %v", exit, time.Since(began))
	}
}
