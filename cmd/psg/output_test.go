package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOutput_IsWrongBeforeAnythingIsDone(t *testing.T) {
	nomad, jobs := takingNomad(t)
	t.Setenv("NOMAD_ADDR", nomad)
	file := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(file, []byte(`{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[{"Name":"main","Driver":"docker"}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"unclosed action":                 {"-t", "{{"},
		"-json and -t exclude each other": {"-json", "-t", "{{.}}"},
		"-t exclude each other":           {"-t", "{{.}}", "-json"},
		"neither true nor false":          {"-json=maybe"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"job", "run", "-detach", file}, args...), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit code %d, %s; want %d and %q", args, code, &errs, exitUsage, want)
		}
	}
	if len(*jobs) > 0 {
		t.Fatal("the job is registered all the same")
	}
	for want, args := range map[string][]string{"7\n": {"-t", "{{.JobModifyIndex}}"}, `"job_modify_index": 7`: {"-json"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"job", "run", "-detach", file}, args...), &out, &errs); code != exitOK || !strings.Contains(out.String(), want) {
			t.Errorf("%v: exit code %d, %s%s", args, code, &out, &errs)
		}
	}
}
