package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

const strangerJob = `{"ID":"web","Namespace":"other","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Count":2,"Tasks":[
	{"Name":"gate","Driver":"psg","Lifecycle":{"Hook":"prestart"}},{"Name":"main","Driver":"docker"}]}]}`

// takingNomad takes every registration, and remembers what jobs it was sent.
func takingNomad(t *testing.T) (address string, jobs *[]map[string]any) {
	jobs = new([]map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			var sent struct{ Job map[string]any }
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &sent); err != nil {
				t.Errorf("sent %s: %v", body, err)
			}
			*jobs = append(*jobs, sent.Job)
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/evaluation/"):
			io.WriteString(w, `{"ID":"e1","Status":"complete"}`)
		case r.Method == http.MethodGet:
			http.Error(w, "job not found", http.StatusNotFound)
		default:
			io.WriteString(w, `{"EvalID":"e1","JobModifyIndex":7}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, jobs
}

func TestJob_OfANamespaceThatIsNotPlacedGoesThroughAsItIs(t *testing.T) {
	asks := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") })
	face := httptest.NewServer(withRegistrations(asks, nil, []string{"ml", "default"}))
	defer face.Close()
	nomad, jobs := takingNomad(t)
	t.Setenv("PSG_ADDR", face.URL)
	t.Setenv("NOMAD_ADDR", nomad)
	for name, job := range map[string]string{
		"any other":             strangerJob,
		"one PSG does not take": strings.Replace(strangerJob, `{"ID"`, `{"Priority":999999,"ID"`, 1),
	} {
		*jobs = nil
		file := filepath.Join(t.TempDir(), "job.json")
		if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"run", "plan"} {
			var out, errs bytes.Buffer
			if code := run(t.Context(), []string{"job", command, file}, &out, &errs); code != exitOK {
				t.Fatalf("psg job %s of %s: exit code %d, %s%s", command, name, code, &out, &errs)
			}
			if want := `no jobs are placed in namespace "other"`; !strings.Contains(out.String(), want) {
				t.Errorf("psg job %s of %s does not say %q:\n%s", command, name, want, &out)
			}
		}
		for _, job := range *jobs {
			group := job["TaskGroups"].([]any)[0].(map[string]any)
			if group["Spreads"] != nil || group["Constraints"] != nil || job["Constraints"] != nil {
				t.Errorf("registered as %v", job)
			}
		}
		if len(*jobs) != 2 {
			t.Errorf("sent %d times, want 2", len(*jobs))
		}
	}
}

// A task of Nomad's has its API at a socket.
func TestJobRun_ReachesNomadAtASocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"JobModifyIndex":7}`) })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-served })
	t.Setenv("NOMAD_ADDR", "unix://"+listener.Addr().String())
	file := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(file, []byte(`{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[{"Name":"main","Driver":"docker"}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"job", "run", "-detach", "-json", file}, &out, &errs); code != exitOK || !strings.Contains(out.String(), `"job_modify_index": 7`) {
		t.Errorf("exit code %d, %s%s", code, &out, &errs)
	}
}

func TestJobPlan_AsksAgainWhilePreviewsAreMadeForOthers(t *testing.T) {
	asked := 0
	face := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			io.WriteString(w, `{}`)
		case asked == 0:
			asked++
			rpc.WriteError(w, psg.ErrBusy)
		default:
			asked++
			io.WriteString(w, `[{"workload":{"namespace":"default","job":"web","group":"g"},"hint":{"n1":2}}]`)
		}
	}))
	defer face.Close()
	job, err := jobOfJSON([]byte(strangerJob))
	if err != nil {
		t.Fatal(err)
	}
	if verdicts, err := (&jobPlan{at: address(face.URL)}).preview(t.Context(), job); err != nil || len(verdicts) != 1 || asked != 2 {
		t.Errorf("%+v, %v, asked %d times; want the second answer", verdicts, err, asked)
	}
}
