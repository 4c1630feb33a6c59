package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// decodedByOPA is what OPA makes of a JSON text.
func decodedByOPA(text []byte) (ast.Value, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("no JSON: %q", text)
	}
	return ast.ValueFromReader(bytes.NewReader(text))
}

var jsonTexts = []string{
	`null`, ` true `, `-1.50e+3`, `9007199254740993`, `"a\u00e9\"b\\"`, "\"\xff\"", `"\ud800"`, `[]`, ` { } `,
	`[1, [2, {"a": []}], "x"]`, `{"a": 1, "b": {"a": 2}, "a": 3}`, `{"a": "a", "": {"": ""}}`,
	``, `{`, `[1,]`, `{"a" 1}`, `1 2`, `nul`, `"`, `1e99999999999`, `01`,
	"{" + strings.Repeat(`"k": 1, "l": 2, "m": [true], `, 20) + `"k": 3}`,
}

func TestDecodeJSON_IsWhatOPAMakesOfIt(t *testing.T) {
	for _, text := range jsonTexts {
		sameAsOPA(t, []byte(text))
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(sameAsOPA)
}

func sameAsOPA(t *testing.T, text []byte) {
	got, err := decodeJSON(text, nil)
	want, wrong := decodedByOPA(text)
	var large *wrongPart
	switch {
	case errors.As(err, &large): // OPA takes numbers of any length
	case (err != nil) != (wrong != nil):
		t.Errorf("%q: error %v; OPA's is %v", text, err, wrong)
	case err == nil && (got.Value.Compare(want) != 0 || got.Value.Hash() != want.Hash() || got.String() != want.String()):
		t.Errorf("%q: %v; OPA says %v", text, got, want)
	}
}

func TestPace_KeepsToItsShareUntilItsTimeIsOver(t *testing.T) {
	c := Config{ReloadShare: 0.25}
	p := c.pace(time.Hour)
	p.since = p.since.Add(-20 * time.Millisecond) // of work
	began := time.Now()
	p.rest()
	if rested := time.Since(began); rested < 60*time.Millisecond {
		t.Errorf("rested %s after 20ms of work", rested)
	}
	p = c.pace(0)
	p.since = p.since.Add(-time.Hour)
	p.rest() // three hours, if its time were not over
}
