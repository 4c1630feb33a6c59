package main

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what docs/cli.md must say into it")

// helpText is a command's help in docs/cli.md, below its heading.
var helpText = regexp.MustCompile("(?m)^## psg ([a-z ]+)\n\n```\n((?s:.*?))```\n")

// docs/cli.md shows the help of every command, word for word, in their order.
func TestCLIDoc_ShowsEveryHelp(t *testing.T) {
	t.Setenv("PSG_ADDR", "")
	t.Setenv("NOMAD_NAMESPACE", "")
	t.Setenv("NOMAD_REGION", "")
	t.Setenv("NATS_URL", "")
	all := commands(t.Context(), os.Stdout, os.Stderr)
	var documented []string
	checkDoc(t, helpText, func(command string) string {
		documented = append(documented, command)
		c, known := all[command]
		if !known {
			return "there is no such command\n"
		}
		made, err := c()
		if err != nil {
			t.Fatal(err)
		}
		return made.Help()
	})
	for _, f := range families(os.Stderr) {
		delete(all, f.name)
	}
	if want := slices.Sorted(maps.Keys(all)); !slices.Equal(documented, want) {
		t.Errorf("docs/cli.md describes %q, the commands are %q", documented, want)
	}
}

// The first of two words is a family, which says what is wrong with the second.
func TestCommands_HaveTheirFamilies(t *testing.T) {
	all := commands(t.Context(), os.Stdout, os.Stderr)
	for command := range all {
		if first, _, two := strings.Cut(command, " "); two && all[first] == nil {
			t.Errorf("psg %s: families lacks %q", command, first)
		}
	}
}

// example is a command in docs/cli.md that needs no controller, with its output.
var example = regexp.MustCompile("(?m)^```console\n\\$ psg (.*)\n((?s:.*?))```\n")

// The examples that need no controller print what docs/cli.md says they do.
func TestCLIDoc_ExamplesPrintWhatItSays(t *testing.T) {
	examples := 0
	checkDoc(t, example, func(line string) string {
		examples++
		var output bytes.Buffer
		run(t.Context(), strings.Fields(line), &output, &output)
		return output.String()
	})
	if examples < 4 {
		t.Errorf("%d examples found: is the pattern still right?", examples)
	}
}

// checkDoc compares the second group of each match in docs/cli.md with what the
// first group calls for.
func checkDoc(t *testing.T, pattern *regexp.Regexp, must func(first string) string) {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
	name := filepath.Join("docs", "cli.md")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var want strings.Builder
	end := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
		first, has := text[at[2]:at[3]], text[at[4]:at[5]]
		right := must(first)
		if has != right && !*update {
			t.Errorf("docs/cli.md says of %s\n%s\nwhich is\n%s\n(go test ./cmd/psg -run CLIDoc -update writes it)", first, has, right)
		}
		want.WriteString(text[end:at[4]] + right)
		end = at[5]
	}
	want.WriteString(text[end:])
	if *update {
		if err := os.WriteFile(name, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
