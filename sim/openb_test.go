package sim

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	nodesCSV = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,10000,2,T4\nn1,8000,10000,1,P100\n"
	podsCSV  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" +
		"whole,1000,100,1,1000,\n" + "half,1000,100,1,500,\n" + "pair,1000,100,2,1000,T4|P100\n" + "picky,1000,100,1,500,P100|V100\n" + "plain,7000,100,0,0,\n"
)

// replayOf writes a trace to disk and replays it.
func replayOf(t *testing.T, nodes, pods, sequence string, knowMix bool, movesPercent int) (string, OpenbResult, error) {
	t.Helper()
	dir := t.TempDir()
	o := Openb{
		Nodes: filepath.Join(dir, "nodes.csv"), Pods: filepath.Join(dir, "pods.csv"),
		Sequence: filepath.Join(dir, "sequence.txt.gz"), Out: filepath.Join(dir, "placements.csv"), KnowMix: knowMix, MovesPercent: movesPercent,
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(o.Nodes, nodes)
	write(o.Pods, pods)
	f, err := os.Create(o.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write([]byte(sequence)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	result, err := o.Run()
	out, _ := os.ReadFile(o.Out)
	return string(out), result, err
}

func TestOpenb_WritesOneLinePerArrival(t *testing.T) {
	for knowMix, want := range map[bool]string{
		// Knowing that picky and pair will come, half spares them the pair of cards.
		true:  "n1,0\nn1,0\nn0,0-1\n,\n,\nn0,\n,\n",
		false: "n0,0\nn1,0\n,\nn0,0\nn0,1\nn1,\n,\n",
	} {
		// half, picky, pair, half, whole, plain, plain
		out, result, err := replayOf(t, nodesCSV, podsCSV, "1\n3\n2\n1\n0\n4\n4\n", knowMix, 0)
		if err != nil {
			t.Fatal(err)
		}
		if out != want {
			t.Errorf("known mix %t:\n%s\nwant\n%s", knowMix, out, want)
		}
		if result.Arrivals != 7 || result.CapacityMilli != 3000 {
			t.Errorf("%+v", result)
		}
	}
}

func TestOpenb_MovesMakeRoomForAPair(t *testing.T) {
	// The first pod takes one of the only two cards on one node; the second
	// wants both.
	for percent, want := range map[int]string{0: "n0,0\n,\n", 49: "n0,0\n,\n", 50: "n0,0\n>0,n1,0\nn0,0-1\n"} {
		out, result, err := replayOf(t, nodesCSV, podsCSV, "0\n2\n", false, percent)
		if err != nil {
			t.Fatal(err)
		}
		if out != want || result.Moved != strings.Count(want, ">") {
			t.Errorf("%d %% moves, %d made:\n%s\nwant\n%s", percent, result.Moved, out, want)
		}
	}
}

func TestOpenb_SameTraceSamePlacements(t *testing.T) {
	sequence := strings.Repeat("1\n3\n2\n0\n4\n", 3)
	first, _, err := replayOf(t, nodesCSV, podsCSV, sequence, false, 50)
	if err != nil {
		t.Fatal(err)
	}
	if second, _, _ := replayOf(t, nodesCSV, podsCSV, sequence, false, 50); first != second {
		t.Errorf("%s\nthen\n%s", first, second)
	}
}

func TestOpenb_NamesWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ nodes, pods, sequence, want string }{
		"column": {"sn,cpu_milli\n", podsCSV, "", `nodes.csv: no column "memory_mib"`},
		"number": {nodesCSV + "n2,many,1,1,T4\n", podsCSV, "", `nodes.csv:4: cpu_milli "many" is not a number`},
		"nan":    {nodesCSV, "cpu_milli,memory_mib,num_gpu,gpu_milli\nNaN,1,0,0\n", "", `pods.csv:2: cpu_milli "NaN" is not a number`},
		"row":    {nodesCSV, podsCSV, "0\n5\n", `sequence.txt.gz:2: "5" is not a row in 0..4`},
		"long":   {nodesCSV, podsCSV, strings.Repeat("x", 9000) + "\n", `:1: "` + strings.Repeat("x", 40) + `" is not a row in 0..4`},
		"fields": {nodesCSV, podsCSV + "short,1\n", "", "pods.csv: record on line 7: wrong number of fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := replayOf(t, tc.nodes, tc.pods, tc.sequence, false, 50)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}
