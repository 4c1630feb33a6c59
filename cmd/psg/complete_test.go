package main

import (
	"os"
	"slices"
	"testing"

	"github.com/posener/complete"

	"github.com/psgrid/psg"
)

func TestComplete_IDsThatTheControllerKnows(t *testing.T) {
	at, _ := faces(t, map[string]any{
		"/v1/nodes":     []psg.Node{{ID: "n2"}, {ID: "n1"}, {ID: "n\x1b[2J"}},
		"/v1/workloads": []psg.Workload{{ID: psg.WorkloadID{Namespace: "default", Job: "web", Group: "a"}}, {ID: psg.WorkloadID{Namespace: "default", Job: "web", Group: "b"}}, {ID: psg.WorkloadID{Namespace: "other", Job: "db"}}},
		"/v1/asks":      []psg.AskStatus{{Ask: psg.Ask{ID: "a1", Alloc: "a1"}, State: psg.Running}, {Ask: psg.Ask{ID: "a2", Alloc: "a2"}, State: psg.Released}, {Ask: psg.Ask{ID: "held/1"}}},
	})
	t.Setenv("PSG_ADDR", string(at))
	t.Setenv("NOMAD_NAMESPACE", "")
	for name, want := range map[string][]string{
		"node status": {"n1", "n2"}, "node rebalance": {"n1", "n2"}, "job status": {"web"}, "job explain": {"web"}, "alloc explain": {"a1"},
	} {
		made, err := commands(t.Context(), os.Stdout, os.Stderr)[name]()
		if err != nil {
			t.Fatal(err)
		}
		if got := made.(*command).AutocompleteArgs().Predict(complete.Args{}); !slices.Equal(got, want) {
			t.Errorf("psg %s completes %q, want %q", name, got, want)
		}
	}
	t.Setenv("PSG_ADDR", "http://127.0.0.1:1")
	if got := known(t.Context(), nodeIDs); got != nil {
		t.Errorf("without a controller: %q", got)
	}
}

func TestComplete_FlagsWithoutAValueHaveNone(t *testing.T) {
	flags := jobRunCommand().AutocompleteFlags()
	for name, alone := range map[string]bool{"-verbose": true, "-json": true, "-check-index": false, "-var-file": false} {
		if got := flags[name] == nil; got != alone {
			t.Errorf("%s stands alone: %v, want %v", name, got, alone)
		}
	}
}
