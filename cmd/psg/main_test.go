package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	e2e "github.com/psgrid/psg/e2e/cluster"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"psg": main})
}

// TestScript runs the scripts of testdata/script with the program itself. They
// may use
//
//	leads                wait until the controller at PSG_ADDR leads
//	awaitout FILE REGEX  wait until a file matches
//	usage REGEX ARG…     run psg, which must exit with 2 and say so
//	nothingleft DIR      fail while a process of the directory runs
//
// and the variables ROOT, PLUGIN, GRPC, REST, NATS (free addresses) and PSG_ADDR.
func TestScript(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), "nomad-driver-psg")
	build := exec.Command("go", "build", "-o", plugin, "../nomad-driver-psg")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, output)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			addresses, err := e2e.FreeAddresses(4)
			if err != nil {
				return err
			}
			temp := filepath.Join(env.WorkDir, "temp")
			env.Vars = append(env.Vars, "ROOT="+root, "PLUGIN="+plugin, "GRPC="+addresses[0], "REST="+addresses[1],
				"PSG_ADDR=http://"+addresses[1], "NOMAD_ADDR=http://"+addresses[2], "NATS="+addresses[3], "NOMAD_NAMESPACE=", "TMPDIR="+temp)
			return os.Mkdir(temp, 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"leads": leads, "awaitout": awaitOut, "usage": usage, "nothingleft": nothingLeft,
		},
	})
}

func pollUntil(script *testscript.TestScript, what string, done func() (bool, error)) {
	script.Check(e2e.Until(context.Background(), 20*time.Second, what, done))
}

func leads(script *testscript.TestScript, _ bool, _ []string) {
	pollUntil(script, "the controller leads", func() (bool, error) {
		response, err := http.Get(script.Getenv("PSG_ADDR") + "/v1/leader")
		if err != nil {
			return false, err
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

func awaitOut(script *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[1])
	script.Check(err)
	pollUntil(script, fmt.Sprintf("%s matches %s", args[0], pattern), func() (bool, error) {
		text, err := os.ReadFile(script.MkAbs(args[0]))
		return pattern.Match(text), errors.Join(err, errors.New(string(text)))
	})
}

func nothingLeft(script *testscript.TestScript, _ bool, args []string) {
	pollUntil(script, "nothing is left", func() (bool, error) {
		left := e2e.Leftovers(script.MkAbs(args[0]))
		return len(left) == 0, errors.New(strings.Join(left, "\n"))
	})
}

func usage(script *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[0])
	script.Check(err)
	err = script.Exec("psg", args[1:]...)
	said := script.ReadFile("stderr")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !pattern.MatchString(said) {
		script.Fatalf("ended with %v, want exit code %d and stderr to match %s; it is\n%s", err, exitUsage, pattern, said)
	}
}
