package server

import (
	"strings"
	"testing"
)

func TestStart_RefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	first, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Start(Config{Dir: dir}); err == nil {
		second.Close()
		t.Error("two servers share a directory")
	} else if !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("error = %q", err)
	}
	first.Close()
	again, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestStart_RefusesWrongConfig(t *testing.T) {
	for name, wrong := range map[string]struct {
		config Config
		want   string
	}{
		"port name":  {Config{Dir: t.TempDir(), Listen: "127.0.0.1:http"}, `port "http"`},
		"port range": {Config{Dir: t.TempDir(), Listen: "127.0.0.1:70000"}, `port "70000"`},
		"no port":    {Config{Dir: t.TempDir(), Listen: "127.0.0.1"}, "missing port"},
		"no name":    {Config{Dir: t.TempDir(), Cluster: Cluster{Listen: "127.0.0.1:0"}}, "has no name"},
		"no client":  {Config{Dir: t.TempDir(), Cluster: Cluster{Name: "a", Listen: "127.0.0.1:0"}}, "takes no clients"},
		"route":      {Config{Dir: t.TempDir(), Cluster: Cluster{Name: "a", Listen: "127.0.0.1:0", Routes: []string{"b"}}}, "route"},
		"a file":     {Config{Dir: "server.go"}, "create bus directory"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := Start(wrong.config)
			if err == nil {
				server.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("error = %q, want %q in it", err, wrong.want)
			}
		})
	}
}
