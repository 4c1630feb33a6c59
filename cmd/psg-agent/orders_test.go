package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

func TestRun_TakesNoOrdersFromAnybody(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(strings.Repeat("x", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"anybody could give orders": {"-orders-grpc", "127.0.0.1:0"},
		"in the clear":              {"-orders-grpc", "0.0.0.0:0", "-orders-token", secret},
		"token file":                {"-orders-grpc", "127.0.0.1:0", "-orders-token", secret + ".none"},
		"-orders-tls-cert":          {"-orders-grpc", "127.0.0.1:0", "-orders-tls-ca", secret},
		`healing "perhaps"`:         {"-heal", "perhaps"},
	} {
		var stdout, stderr bytes.Buffer
		args = append([]string{"-node", "n", "-nats", "nats://127.0.0.1:1", "-state-dir", t.TempDir()}, args...)
		if code := run(t.Context(), args, &stdout, &stderr); code == exitOK || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
}

func TestRun_OneAgentForEachJournal(t *testing.T) {
	dir := t.TempDir()
	held, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, more := range [][]string{{"-nats", "nats://127.0.0.1:1"}, {"-undo"}} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"-node", "n", "-state-dir", dir}, more...)
		if code := run(t.Context(), args, &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), "another agent") {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-node", "n", "-state-dir", dir, "-undo"}, &stdout, &stderr); code != exitOK {
		t.Errorf("nothing to undo: exit code %d, %s", code, &stderr)
	}
}

func TestStateOf_IsBelowTheDirectoryOfAll(t *testing.T) {
	for _, node := range []psg.NodeID{"n1", "host.example", ".", "..", "../x", "a/../../b", "/etc"} {
		if dir := stateOf(node); filepath.Dir(dir) != defaultState {
			t.Errorf("node %q: %s", node, dir)
		}
	}
}
