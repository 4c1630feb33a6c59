package shim

import (
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
)

func TestAccess_FollowsTheTokenFileAndTellsWhatFails(t *testing.T) {
	nomad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Nomad-Token") {
		case "good":
			w.Write([]byte("[]"))
		case "weak":
			if r.Method == http.MethodGet {
				w.Write([]byte("[]"))
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusForbidden)
			zipped := gzip.NewWriter(w)
			zipped.Write([]byte("Permission denied"))
			zipped.Close()
		default:
			http.Error(w, "ACL token not found", http.StatusForbidden)
		}
	}))
	defer nomad.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("NOMAD_ADDR", nomad.URL)
	t.Setenv("NOMAD_TOKEN", "of the environment")
	write("expired\n")
	access, client, err := NewAccess(file)
	if err != nil {
		t.Fatal(err)
	}
	list := func() error { _, _, err := client.Nodes().List(nil); return err }
	submit := func() error {
		_, _, err := client.Jobs().Register(&api.Job{}, &api.WriteOptions{Namespace: "ml"})
		return err
	}
	tells := func(want ...string) {
		t.Helper()
		got := access.Troubles()
		if len(got) != len(want) {
			t.Fatalf("troubles %q, want %d", got, len(want))
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("trouble %q, want %q…", got[i], want[i])
			}
		}
	}

	tells()
	if err := list(); err == nil || !strings.Contains(err.Error(), "ACL token not found") {
		t.Errorf("%v, want Nomad's answer still in the error", err)
	}
	tells("Nomad refuses PSG's token, which has expired, was revoked or lacks a right: ACL token not found; the policy it needs is in docs/nomad.md (GET /v1/nodes, since ")
	write("good")
	if err := list(); err != nil {
		t.Error(err)
	}
	tells()
	write("weak")
	if list() != nil || submit() == nil {
		t.Error("want reads allowed and writes refused")
	}
	tells("Nomad refuses PSG's token, which has expired, was revoked or lacks a right: Permission denied; the policy it needs is in docs/nomad.md (PUT /v1/jobs in namespace ml, since ")
	write("")
	if err := list(); err == nil || !strings.Contains(err.Error(), file+" is empty") {
		t.Errorf("%v, want the empty file named", err)
	}
	if _, _, err := NewAccess(file); err == nil {
		t.Error("an empty token file is taken")
	}
	nomad.Close()
	write("good")
	if list() == nil {
		t.Error("a Nomad that is gone answers")
	}
	tells("Nomad is not reached: ", "Nomad refuses PSG's token")
}
