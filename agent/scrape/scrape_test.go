package scrape

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

const (
	web   = "0c3f9f1e-5a7b-4c1d-9f00-000000000001"
	batch = "0c3f9f1e-5a7b-4c1d-9f00-000000000002"
)

// endpoint serves a text that can be changed.
type endpoint struct {
	text   string
	status int
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(e.status)
	fmt.Fprint(w, e.text)
}

func serve(t *testing.T, text string) (*endpoint, *Source) {
	t.Helper()
	e := &endpoint{text, http.StatusOK}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	s, err := New(Config{Name: "test", URL: server.URL + "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	return e, s
}

// measure returns what a source puts, "alloc metric" by value.
func measure(t *testing.T, s *Source) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	err := s.Measure(t.Context(), func(alloc psg.AllocID, metric string, value float64) {
		got[strings.TrimSpace(fmt.Sprintf("%s %s", alloc, metric))] = value
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t *testing.T, got, want map[string]float64) {
	t.Helper()
	names := slices.Sorted(maps.Keys(want))
	names = append(names, slices.Sorted(maps.Keys(got))...)
	for _, name := range names {
		v, ok := got[name]
		if w, wanted := want[name]; ok != wanted || v < w-1e-6 || v > w+1e-6 {
			t.Errorf("%s is %v (%v), want %v (%v)", name, v, ok, w, wanted)
		}
	}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMeasure_TakesWhatDCGMSays(t *testing.T) {
	_, s := serve(t, fixture(t, "dcgm.prom"))
	same(t, measure(t, s), map[string]float64{
		"gpu/0/busy_percent": 87, "gpu/0/memory_busy_percent": 21, "gpu/0/memory_used_mb": 30512, "gpu/0/memory_free_mb": 9936, "gpu/0/memory_total_mb": 40960,
		"gpu/0/power_watts": 305.612, "gpu/0/temperature_celsius": 64, "gpu/0/ecc_corrected": 3, "gpu/0/ecc_uncorrected": 0, "gpu/0/xid": 31,
		"gpu/0/engine_busy_percent": 50, "gpu/0/sm_busy_percent": 25, "gpu/0/tensor_busy_percent": 12.5, "gpu/0/dram_busy_percent": 6.25,
		"gpu/1/busy_percent": 13, "gpu/2/mig/9/memory_used_mb": 512,
		web + " gpu_busy_percent": 100, web + " gpu_memory_mb": 30512,
	})
}

// cadvisor is what cAdvisor says of two allocations at a time: one by Nomad's
// docker driver with two interfaces, and one whose group has a group below it.
func cadvisor(ms int, cpu, received float64) string {
	docker := fmt.Sprintf(`container_label_com_hashicorp_nomad_alloc_id="%s",id="/docker/0123",image="redis:7",name="redis-%s"`, web, web)
	group := "/nomad.slice/share.slice/" + batch + ".main.scope"
	return strings.NewReplacer("DOCKER", docker, "GROUP", group, "TIME", fmt.Sprint(ms), "CPU", fmt.Sprint(cpu), "RECEIVED", fmt.Sprint(received), "BATCH", batch).Replace(
		`# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{cpu="total",DOCKER} CPU TIME
container_cpu_usage_seconds_total{cpu="total",id="GROUP"} 10 TIME
container_cpu_usage_seconds_total{cpu="total",id="GROUP/below"} 7 TIME
container_cpu_usage_seconds_total{cpu="total",id="/"} 1e+06 TIME
container_memory_usage_bytes{DOCKER} 2.097152e+06 TIME
container_memory_usage_bytes{id="/odd",name="task-BATCH"} 1.048576e+06 TIME
container_network_receive_bytes_total{DOCKER,interface="eth0"} RECEIVED TIME
container_network_receive_bytes_total{DOCKER,interface="eth1"} 1000 TIME
container_last_seen{DOCKER} not even a number
`)
}

func TestMeasure_TakesWhatCAdvisorSays(t *testing.T) {
	e, s := serve(t, cadvisor(1_000_000, 5, 0))
	same(t, measure(t, s), map[string]float64{web + " container_memory_mb": 2, batch + " container_memory_mb": 1})
	e.text = cadvisor(1_010_000, 20, 5e6)
	want := map[string]float64{
		web + " container_memory_mb": 2, batch + " container_memory_mb": 1,
		web + " container_cpu_percent": 150, batch + " container_cpu_percent": 0, web + " container_network_received_mbits": 4,
	}
	same(t, measure(t, s), want)
	same(t, measure(t, s), want) // it has not looked again
	e.text = cadvisor(1_020_000, 1, 5e6)
	delete(want, web+" container_cpu_percent") // the container was started anew
	want[web+" container_network_received_mbits"] = 0
	same(t, measure(t, s), want)
}

func TestMeasure_PutsNothingOfABadAnswer(t *testing.T) {
	const known = `DCGM_FI_DEV_GPU_TEMP{gpu="0"} 64` + "\n"
	for name, bad := range map[string]struct {
		text, want string
		status     int
	}{
		"status":      {known, "503 Service Unavailable", http.StatusServiceUnavailable},
		"redirect":    {known, "302 Found", http.StatusFound},
		"nothing":     {"go_goroutines 5\n", "no metric of DCGM or cAdvisor", http.StatusOK},
		"labels":      {known + `DCGM_FI_DEV_GPU_TEMP{gpu=0} 64`, "line 2, DCGM_FI_DEV_GPU_TEMP: its labels", http.StatusOK},
		"no number":   {known + `DCGM_FI_DEV_GPU_TEMP{gpu="0"}`, "no number", http.StatusOK},
		"odd number":  {known + `DCGM_FI_DEV_GPU_TEMP{gpu="0"} 6a`, "no number", http.StatusOK},
		"odd time":    {known + `DCGM_FI_DEV_GPU_TEMP{gpu="0"} 6 now`, "no time", http.StatusOK},
		"endless":     {known + strings.Repeat("x", 2*maxLine), "token too long", http.StatusOK},
		"much":        {known + strings.Repeat("# "+strings.Repeat("x", 1022)+"\n", maxAnswer>>10), "more than 16 MiB", http.StatusOK},
		"many labels": {known + "DCGM_FI_DEV_GPU_TEMP{" + strings.Repeat(`a="",`, maxLabels+1) + "} 1", "its labels", http.StatusOK},
	} {
		e, s := serve(t, bad.text)
		e.status = bad.status
		err := s.Measure(t.Context(), func(_ psg.AllocID, metric string, _ float64) { t.Errorf("%s: put %s", name, metric) })
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, bad.want)
		}
	}
}

func TestMeasure_DoesNotWaitForASilentEndpoint(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	s, err := New(Config{Name: "silent", URL: server.URL, Timeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Measure(t.Context(), func(psg.AllocID, string, float64) {}); err == nil {
		t.Error("no error")
	}
}

func TestNew_RefusesWhatIsNoURL(t *testing.T) {
	for _, config := range []Config{{URL: "http://127.0.0.1:1"}, {Name: "a", URL: "127.0.0.1:9400"}, {Name: "a", URL: "http://"}, {Name: "a", URL: "unix:///x"}, {Name: "a", URL: "http://a:b"}} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v is taken", config)
		}
	}
}

// docs/agent.md names every metric, and whence it is.
func TestDoc_ListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`^gpu/\d+/`)
	for family, take := range families {
		s := newSums(time.Unix(1, 0))
		take(s, &sample{labels: []label{{[]byte("gpu"), []byte("0")}, {[]byte(allocLabel), []byte(web)}, {[]byte(jobLabel), []byte(web)}}})
		if len(s.of) == 0 {
			t.Errorf("%s gives nothing", family)
		}
		names := []string{family}
		for k := range s.of {
			names = append(names, number.ReplaceAllString(k.metric, "gpu/N/"))
		}
		for _, name := range names {
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/agent.md does not name %s", name)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(cadvisor(1000, 1, 2))
	f.Add(`DCGM_FI_DEV_XID_ERRORS{gpu="0",err_msg="a \"b\" \\ \n {x}"} 31`)
	f.Add("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} NaN -5\n")
	f.Add("container_threads{id=\"/\" , } +Inf")
	f.Fuzz(func(t *testing.T, text string) {
		sums, err := read(strings.NewReader(text), time.Unix(1, 0))
		if err == nil && len(sums.of) > maxSums {
			t.Errorf("%d sums", len(sums.of))
		}
	})
}

func FuzzQuoted(f *testing.F) {
	f.Add("plain")
	f.Add("a \"b\" \\ \n")
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, value string) {
		s, err := parse([]byte(`{a="` + escape.Replace(value) + `",b="x",} 1.5 7`))
		if err != nil || string(s.label("a")) != value || string(s.label("b")) != "x" || s.value != 1.5 || s.at.UnixMilli() != 7 {
			t.Errorf("%q became %+v, %v", value, s, err)
		}
	})
}
