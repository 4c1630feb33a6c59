package shim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/psgrid/psg"
)

// Problem is one thing wrong with a job.
type Problem struct {
	Path string // JSON path, "Job.TaskGroups[1].Tasks[0].Resources.MemoryMB"; empty means the whole input
	Text string // "-5 is negative"
}

// String is the path and the text.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Text
	}
	return p.Path + ": " + p.Text
}

// Problems is everything wrong with a job, in the order of its fields. It is a
// psg.ErrInvalid.
type Problems []Problem

// shownProblems bounds an error's length: a hostile job has millions.
const shownProblems = 10

// Error lists the first problems, one a line.
func (p Problems) Error() string {
	var lines []string
	for i, problem := range p {
		if i == shownProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(p)-i))
			break
		}
		lines = append(lines, problem.String())
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes every Problems a psg.ErrInvalid.
func (p Problems) Unwrap() error { return psg.ErrInvalid }

// err is p as an error, nil when there is no problem.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// elem is the path of an element of a list.
func elem(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// field is the path of a field of an object, or of an entry of a map; a name
// that would not read as one stands in brackets.
func field(path, name string) string {
	switch {
	case !plain(name):
		return path + "[" + quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// join is the path of what stands at rest below path.
func join(path, rest string) string {
	if path == "" || rest == "" || rest[0] == '[' {
		return path + rest
	}
	return path + "." + rest
}

func plain(name string) bool {
	for _, r := range name {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= shownText
}

// shownText bounds how much of a job's own text an error repeats, in bytes.
const shownText = 64

func quote(text string) string {
	if len(text) > shownText {
		return fmt.Sprintf("%.*q…", shownText, text)
	}
	return fmt.Sprintf("%q", text)
}
