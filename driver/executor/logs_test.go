package executor

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestOpenLogs_DiscardsWhatHasNoReader(t *testing.T) {
	dir := t.TempDir()
	s := Spec{Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err")}
	for _, fifo := range []string{s.Stdout, s.Stderr} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 50 * time.Millisecond
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	stdout, stderr, err := openLogs(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	defer stderr.Close()
	if stdout.Name() != os.DevNull || stderr.Name() != os.DevNull {
		t.Errorf("opened %s and %s", stdout.Name(), stderr.Name())
	}
	if took := time.Since(began); took < limit || took > 10*limit {
		t.Errorf("took %v", took)
	}
	if readerLimit >= startLimit {
		t.Error("a start is given up before its logs are")
	}
}

func TestOpenLog_DoesNotLeaveTheDirectoryOfTheTasks(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"file": victim, "dir": filepath.Dir(victim)} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"file", "dir/victim", "dir/../dir/victim"} {
		if f, err := OpenLog(t.Context(), dir, dir+"/"+path); err == nil {
			f.Close()
			t.Errorf("%s: opened what it points to", path)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	f, err := OpenLog(t.Context(), dir, fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_NONBLOCK != 0 {
		t.Errorf("a command would find its output non-blocking: %#x, %v", flags, errno)
	}
}
