package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/psgrid/psg/hclspec"
)

// fed is a target that hands on what it is fed, texts as strings.
type fed struct {
	sources []hclspec.Source
	values  chan any
}

func (f *fed) Sources() []hclspec.Source { return f.sources }

func (f *fed) Feed(_ hclspec.Source, value any, at time.Time) error {
	if time.Since(at) > time.Minute {
		return errors.New("fed with the wrong time")
	}
	if text, ok := value.(json.RawMessage); ok {
		if !json.Valid(text) {
			return errors.New("fed with what is no JSON")
		}
		value = string(text)
	}
	f.values <- value
	return nil
}

// run polls until the test ends.
func run(t *testing.T, sources ...hclspec.Source) *fed {
	t.Helper()
	target := &fed{sources, make(chan any, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- New(target, Config{}).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
	})
	return target
}

func (f *fed) next(t *testing.T) any {
	t.Helper()
	select {
	case value := <-f.values:
		return value
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was fed in 10 s")
		return nil
	}
}

func source(kind, url string) hclspec.Source {
	return hclspec.Source{Kind: kind, Name: "s", URL: url, Query: "up", Key: "node", Interval: 10 * time.Millisecond, Timeout: time.Second}
}

func TestRun_FeedsADocumentEachInterval(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n := asked.Add(1); n {
		case 2:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case 3:
			fmt.Fprint(w, `{"n": `)
		default:
			fmt.Fprintf(w, `{"n": %d, "big": 9007199254740993}`, n)
		}
	}))
	defer server.Close()
	target := run(t, source("http", server.URL))
	for _, want := range []string{`{"n": 1, "big": 9007199254740993}`, `{"n": 4, "big": 9007199254740993}`} {
		if got := fmt.Sprint(target.next(t)); got != want {
			t.Errorf("fed %s, want %s", got, want)
		}
	}
}

func TestGet_TellsNoSecretsOfAnAddress(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	for _, kind := range []string{"http", "prometheus"} {
		_, err := New(&fed{}, Config{}).ask(t.Context(), source(kind, "http://user-hush:pass-hush@"+address+"/path?token=hush"), time.Now())
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), address+"/path") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestRun_GivesUpOnASlowSourceAndAsksAgain(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `1`)
	}))
	defer server.Close()
	slow := source("http", server.URL)
	slow.Timeout = 20 * time.Millisecond
	if got := fmt.Sprint(run(t, slow).next(t)); got != "1" {
		t.Errorf("fed %s", got)
	}
}

func TestQuery_ReadsVectorsAndMatrices(t *testing.T) {
	var path, query string
	body := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query = r.URL.Path, r.URL.RawQuery
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	poller := New(&fed{}, Config{})
	now := time.UnixMilli(1_000_000_500)
	instant, over := source("prometheus", server.URL+"/"), source("prometheus", server.URL)
	over.Range, over.Step = time.Minute, 15*time.Second
	for _, c := range []struct {
		source            hclspec.Source
		body, want, fails string
	}{
		{instant, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"2.5"]},{"metric":{"node":"b"},"value":[1,"NaN"]}]}}`, "map[a:2.5]", ""},
		{over, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"node":"a"},"values":[[1.5,"2"],[2,"+Inf"]]}]}}`, "map[a:[map[at:1500000000 value:2]]]", ""},
		{instant, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}`, "", `no label "node"`},
		{instant, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"2"]},{"metric":{"node":"a"},"value":[1,"2"]}]}}`, "", `two series have node="a"`},
		{instant, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, "", `result type "scalar", want a vector`},
		{instant, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,2]}]}}`, "", "decode the answer of prometheus"},
	} {
		body = c.body
		got, err := poller.ask(t.Context(), c.source, now)
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %v, want %q", c.body, err, c.fails)
		case c.fails == "" && (err != nil || fmt.Sprint(got) != c.want):
			t.Errorf("%s: %v, %v, want %s", c.body, got, err, c.want)
		}
		want := "query=up&time=1000000.500"
		if c.source.Range > 0 {
			want = "end=1000000.500&query=up&start=999940.500&step=15"
		}
		if query != want || !strings.HasPrefix(path, "/api/v1/query") {
			t.Errorf("asked %s?%s, want %s", path, query, want)
		}
	}
}

// A real Prometheus that scrapes itself.
func TestRun_AsksARealPrometheus(t *testing.T) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("SKIPPED: no prometheus on PATH; Debian's package prometheus has it")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	dir := t.TempDir()
	config := fmt.Sprintf("scrape_configs:\n- job_name: self\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  static_configs:\n  - targets: [%q]\n    labels: {node: n1}\n", address)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, binary, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=error")
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait() // it was interrupted
	})
	instant, over := source("prometheus", "http://"+address), source("prometheus", "http://"+address)
	instant.Interval, over.Interval = 100*time.Millisecond, 100*time.Millisecond
	over.Name, over.Range, over.Step = "over", 10*time.Second, time.Second
	target := run(t, instant, over)
	var vector, matrix bool
	for deadline := time.Now().Add(30 * time.Second); !(vector && matrix) && time.Now().Before(deadline); {
		got, _ := target.next(t).(map[string]any)
		vector = vector || reflect.DeepEqual(got, map[string]any{"n1": 1.0})
		points, _ := got["n1"].([]any)
		matrix = matrix || len(points) > 0 && points[0].(map[string]any)["value"] == 1.0
	}
	if !vector || !matrix {
		t.Errorf("up of the scraped server was fed: as a vector %t, as a matrix %t", vector, matrix)
	}
}
