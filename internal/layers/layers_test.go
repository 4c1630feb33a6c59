package layers

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestCheck_SourcesKeepTheTable(t *testing.T) {
	faults, err := Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestCheck_FindsPlantedImports(t *testing.T) {
	for name, planted := range map[string]struct{ file, imports, want string }{
		"sideways":         {"shim/a.go", Module + "/controller", `"shim" may not import "controller"`},
		"up":               {"a.go", Module + "/placement", `"" may not import "placement"`},
		"foreign noun":     {"a.go", "github.com/nats-io/nats.go", "standard library only"},
		"below a row":      {"driver/cgroup/a.go", Module + "/rpc", `"driver" may not import "rpc"`},
		"package unlisted": {"util/a.go", "fmt", "has no row"},
		"target unlisted":  {"shim/a.go", Module + "/util", "has no row"},
		"nested row":       {"driver/a.go", Module + "/driver/plugin", `"driver" may not import "driver/plugin"`},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{planted.file: {Data: []byte("package a\nimport _ \"" + planted.imports + "\"\n")}}
			faults, err := Check(tree)
			if err != nil {
				t.Fatal(err)
			}
			if len(faults) != 1 || !strings.Contains(faults[0], planted.want) {
				t.Errorf("faults = %q, want one with %q", faults, planted.want)
			}
		})
	}
}

func TestCheck_AllowsWhatTheTableNames(t *testing.T) {
	tree := fstest.MapFS{
		"controller/a.go":       {Data: []byte("package a\nimport (\n_ \"" + Module + "\"\n_ \"" + Module + "/ledger\"\n)\n")},
		"controller/a_test.go":  {Data: []byte("package a\nimport _ \"" + Module + "/bus\"\n")},
		"wire/psg/v1/a.go":      {Data: []byte("package a\nimport _ \"google.golang.org/grpc\"\n")},
		"wire/testdata/evil.go": {Data: []byte("package a\nimport _ \"" + Module + "/rpc\"\n")},
		"cmd/psg/a.go":          {Data: []byte("package main\nimport _ \"" + Module + "/wire/psg/v1\"\n")},
	}
	faults, err := Check(tree)
	if err != nil || len(faults) > 0 {
		t.Errorf("Check = %q, %v, want nothing", faults, err)
	}
}
