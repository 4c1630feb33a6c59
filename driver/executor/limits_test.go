package executor_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/psgrid/psg/driver/executor"
)

func TestLimits_AreSetOrNamed(t *testing.T) {
	r := shell(t, `cat /proc/self/cgroup; echo end; sleep 1000`, func(s *executor.Spec) {
		s.Limits.MemoryMB, s.Limits.CPUShares = 64, 500
	})
	r.says(t, "end")
	if len(r.Started.Unapplied) > 0 {
		t.Skipf("SKIPPED: this machine does not permit limits: %v", r.Started.Unapplied)
	}
	limit := ""
	for _, dir := range r.Started.Groups {
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
			if data, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				limit = strings.TrimSpace(string(data))
			}
		}
	}
	if limit != strconv.Itoa(64<<20) {
		t.Errorf("limit %q in %v", limit, r.Started.Groups)
	}
	if err := r.Stop(syscall.SIGKILL, 0); err != nil {
		t.Fatal(err)
	}
	r.wait(t)
	eventually(t, "removed groups", func() bool {
		for _, dir := range r.Started.Groups {
			if _, err := os.Stat(dir); err == nil {
				return false
			}
		}
		return true
	})
}

func TestLimits_NameTheKernelAsKiller(t *testing.T) {
	// A shell that doubles a string outgrows 8 MiB soon.
	r := shell(t, `s=xxxxxxxxxxxxxxxx; while :; do s=$s$s; done`, func(s *executor.Spec) { s.Limits.MemoryMB = 8 })
	if len(r.Started.Unapplied) > 0 {
		t.Skipf("SKIPPED: this machine does not permit limits: %v", r.Started.Unapplied)
	}
	if exit := r.wait(t); !exit.OOM || exit.Code != 137 {
		t.Errorf("got %+v", exit)
	}
}
