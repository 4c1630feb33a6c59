package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun_CheckAsksWhatIsBesideTheKernelsFiles(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `DCGM_FI_DEV_GPU_TEMP{gpu="3"} 64`)
	}))
	defer server.Close()
	var stdout, stderr bytes.Buffer
	sys := t.TempDir()
	chip := filepath.Join(sys, "class/hwmon/hwmon0")
	if err := os.MkdirAll(chip, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(chip, "temp1_input"), []byte("41000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-check", "-nvml", off, "-sys", sys, "-scrape", "dcgm=" + server.URL, "-scrape", "away=http://127.0.0.1:1/metrics"}
	if code := run(t.Context(), args, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	for _, want := range []string{"gpu/3/temperature_celsius", "64.00", "measure by away: ", "sensor/hwmon0/temp1/temperature_celsius", "measure by nvme: "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %s in\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), "by nvml") {
		t.Errorf("NVML is asked although it is off:\n%s", &stdout)
	}
}

func TestRun_RefusesBadSources(t *testing.T) {
	open := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(open, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"it is not NAME=URL":      {"-scrape", "http://127.0.0.1:9400/metrics"},
		"no http URL":             {"-scrape", "dcgm=//127.0.0.1:9400"},
		"no user for bmc":         {"-ipmi", "bmc"},
		"can be read by others":   {"-ipmi", "bmc", "-ipmi-user", "u", "-ipmi-password", open},
		"no such file":            {"-ipmi", "bmc", "-ipmi-user", "u", "-ipmi-password", open + "er"},
		`there are two named "a"`: {"-scrape", "a=http://a", "-scrape", "a=http://b"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append(args, "-check"), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
}
