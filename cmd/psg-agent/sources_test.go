package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRun_CheckAsksEndpoints(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `DCGM_FI_DEV_GPU_TEMP{gpu="3"} 64`)
	}))
	defer server.Close()
	var stdout, stderr bytes.Buffer
	args := []string{"-check", "-nvml", off, "-scrape", "dcgm=" + server.URL, "-scrape", "away=http://127.0.0.1:1/metrics"}
	if code := run(t.Context(), args, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	for _, want := range []string{"gpu/3/temperature_celsius", "64.00", "measure by away: "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %s in\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), "nvml") {
		t.Errorf("NVML is asked although it is off:\n%s", &stdout)
	}
}

func TestRun_RefusesBadSources(t *testing.T) {
	for want, args := range map[string][]string{
		"it is not NAME=URL":      {"-scrape", "http://127.0.0.1:9400/metrics"},
		"no http URL":             {"-scrape", "dcgm=//127.0.0.1:9400"},
		`there are two named "a"`: {"-scrape", "a=http://a", "-scrape", "a=http://b"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append(args, "-check"), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
}
