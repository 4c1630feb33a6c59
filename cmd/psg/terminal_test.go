package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/psgrid/psg"
)

// hostileName clears the screen, is a terminal's title, is turned around, and is
// a line of its own.
const hostileName = "n\x1b[2J\x1b]0;x\a\u009b31m\u202e\r\x7f\nforged\tcell"

func hostileNode() psg.Node {
	return psg.Node{
		ID: hostileName, Name: hostileName, Datacenter: hostileName,
		Devices: []psg.Device{{ID: hostileName, Vendor: hostileName, Type: hostileName, Model: hostileName}},
		Telemetry: &psg.Telemetry{
			Metrics: map[string]psg.Stats{hostileName: {Last: 1}},
			Allocs:  []psg.AllocTelemetry{{Alloc: hostileName, Metrics: map[string]psg.Use{hostileName: {Last: 1}}, Projection: &psg.Projection{}}},
		},
	}
}

func harmful(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

func TestPrint_LetsNoNameDriveTheTerminal(t *testing.T) {
	node := hostileNode()
	report := psg.Report{Alloc: hostileName, Reason: hostileName, Kind: psg.Freeze}
	for name, text := range map[string]func(io.Writer) error{
		"list":    func(w io.Writer) error { return listNodes(w, []psg.Node{node}, true) },
		"show":    func(w io.Writer) error { return showNode(w, node, true) },
		"reports": func(w io.Writer) error { return listReports(w, []psg.Report{report}) },
	} {
		var out bytes.Buffer
		if err := new(output).print(&out, nil, text); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), harmful); i >= 0 {
			t.Errorf("%s: %q", name, out.String()[i:])
		}
		if strings.Contains(out.String(), "\nforged") {
			t.Errorf("%s: a name made a line of its own:\n%s", name, &out)
		}
	}
}

func TestLive_LetsNoNameDriveTheTerminal(t *testing.T) {
	screen, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	l := live{past: map[string][]float64{}}
	for _, nodes := range [][]psg.Node{{hostileNode()}, {hostileNode(), hostileNode()}} {
		frame := fit(screen, l.frame(nodes, nil, time.Now()))
		for _, own := range []string{toCorner, clearLine, clearRest} {
			frame = strings.ReplaceAll(frame, own, "")
		}
		if i := strings.IndexFunc(frame, harmful); i >= 0 || strings.Contains(frame, "\nforged") {
			t.Errorf("drawn: %q", frame)
		}
	}
}

func TestReadable_LeavesText(t *testing.T) {
	for _, text := range []string{"", "größer ▁▂▃ 日本", "a\tb\nc"} {
		if got := readable(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := readable("\xff\x9b1m"); strings.Contains(got, "\x9b") {
		t.Errorf("bytes that are no text are left: %q", got)
	}
}
