package controller

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// diffJSON compares two values by their JSON form, which is what users see.
func diffJSON(t *testing.T, want, got any) string {
	t.Helper()
	encode := func(v any) string {
		data, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return cmp.Diff(encode(want), encode(got))
}
