package shim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func TestTranslate_ReadsTheProbeOfAGroup(t *testing.T) {
	job := func(first, second string) []byte {
		task := `{"Name": %q, "Driver": "psg", "Lifecycle": {"Hook": "prestart"}, "Config": {"kind": "api", "probe": [%s]}}`
		return []byte(`{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [` + fmt.Sprintf(task, "gate", first) + "," + fmt.Sprintf(task, "more", second) + `]}]}`)
	}
	const probe = `{"port": "http", "path": "/health", "objective": "20ms"}`
	for name, second := range map[string]string{"said once": "", "said twice": probe} {
		translated, err := Translate(job(probe, second))
		if err != nil {
			t.Fatal(err)
		}
		want := psg.Probe{Port: "http", Path: "/health", Interval: 200 * time.Millisecond, Objective: 20 * time.Millisecond}
		if got := translated.Workloads[0].Probe; got == nil || *got != want {
			t.Errorf("%s: probe %+v, want %+v", name, got, want)
		}
	}
	_, err := Translate(job(probe, `{"port": "admin", "objective": "1s"}`))
	if err == nil || !strings.Contains(err.Error(), "probe: another psg task of the group declares another") {
		t.Errorf("two probes: %v", err)
	}
}
