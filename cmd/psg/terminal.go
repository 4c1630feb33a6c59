package main

import (
	"io"
	"strings"
	"unicode"
)

// harmless writes text for people: what a node, a job or an agent is called, or
// says, must not move the cursor, colour what follows or turn it around.
type harmless struct{ w io.Writer }

// Write writes p with a replacement for each character that a terminal acts upon.
func (h harmless) Write(p []byte) (int, error) {
	if _, err := io.WriteString(h.w, readable(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// readable replaces what a terminal acts upon, but for the ends of lines and
// tabs. What is not UTF-8 is replaced too: there are terminals that act on bytes.
func readable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// word is readable in one cell of a table.
func word[S ~string](text S) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, readable(string(text)))
}
