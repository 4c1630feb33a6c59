package policies

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// pipe makes a named pipe, which gives whoever opens it nothing.
func pipe(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad_RefusesWhatIsNoRegularFile(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for path, want := range map[string]string{
		pipe(t, t.TempDir(), "pipe"): "pipe: it is a pipe, and not a regular file",
		socket:                       "s: it is a socket, and not a regular file",
		os.DevNull:                   "open /dev/null: it is a device, and not a regular file",
		"/dev/zero":                  "it is a device",
		cycle(t):                     "too many levels of symbolic links",
	} {
		_, err := Load(path)
		refuses(t, err, want)
	}
}

// cycle is a link to itself.
func cycle(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cycle")
	if err := os.Symlink(path, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad_RefusesWhatIsNoRegularFileInABundle(t *testing.T) {
	outside := saved(t, "outside.rego", []byte("package p\n\ndeny contains \"no\"\n"))
	for _, name := range []string{"bundle.hcl", "sub/p.rego", "sub/p_test.rego", "data.json", "data.yaml", ".manifest", ".signatures.json"} {
		for kind, put := range map[string]func(path string) error{
			"it is a pipe":                      func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"too many levels of symbolic links": func(path string) error { return os.Symlink(filepath.Base(path), path) },
			"path escapes from parent":          func(path string) error { return os.Symlink(outside, path) },
			"no such file or directory":         func(path string) error { return os.Symlink("gone", path) },
			"it is a directory":                 func(path string) error { return os.Symlink(".", path) },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				dir := bundleDir(t, signable)
				path := filepath.Join(dir, name)
				if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				if err := put(path); err != nil {
					t.Fatal(err)
				}
				_, err := Load(dir)
				refuses(t, err, kind)
				refuses(t, err, name)
			})
		}
	}
}

func TestLoad_PassesOverWhatNoBundleConsistsOf(t *testing.T) {
	want := mustLoad(t, Config{}, signable).Digest()
	dir := bundleDir(t, signable)
	pipe(t, dir, "control")
	for link, to := range map[string]string{"..data": "sub", "README": "../README", ".#p.rego": "me@host.1234:5678", "again": "again"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if set.Digest() != want {
		t.Errorf("the bundle consists of %q", set.files.names())
	}
}

// As Kubernetes mounts a ConfigMap.
func TestLoad_FollowsLinksWithinTheBundle(t *testing.T) {
	dir := bundleDir(t, strings.NewReplacer("sub/", "", "-- ", "-- ..2026/").Replace(signable))
	for link, to := range map[string]string{"..data": "..2026", "bundle.hcl": "..data/bundle.hcl", "p.rego": "..data/p.rego"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Load(dir)
	if err == nil {
		if got := set.files.names(); !slices.Equal(got, []string{"bundle.hcl", "p.rego"}) {
			t.Errorf("the bundle consists of %q", got)
		}
		return
	}
	t.Error(err)
}

// A directory that holds no bundle may be one that holds everything else.
func TestLoad_LooksForTheBundleFirst(t *testing.T) {
	dir := t.TempDir()
	pipe(t, dir, "x.rego")
	_, err := Load(dir)
	refuses(t, err, "there is no bundle.hcl in "+dir)
}
