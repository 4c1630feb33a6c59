package hclspec

import (
	"reflect"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

func TestParseBundle_ReadsLimits(t *testing.T) {
	const src = `
bundle "b" {}
limit "one_db_per_host" {
  match    = { group = "db" }
  per_node = 1
  soft     = true
}
limit "mirrors" {
  match    = { role = "mirror", tier = "gold" }
  per_node = 5
  total    = 20
}
`
	bundle, err := ParseBundle("bundle.hcl", []byte(src))
	want := []psg.Limit{
		{Name: "one_db_per_host", Match: map[string]string{"group": "db"}, PerNode: 1, Soft: true},
		{Name: "mirrors", Match: map[string]string{"role": "mirror", "tier": "gold"}, PerNode: 5, Total: 20},
	}
	if err != nil || !reflect.DeepEqual(bundle.Limits, want) {
		t.Errorf("%+v, %v, want %+v", bundle.Limits, err, want)
	}
}

func TestParseBundle_SaysWhatIsWrongWithALimit(t *testing.T) {
	for body, want := range map[string]string{
		"match = {}\n per_node = 1":                           "bundle.hcl:2:1: limit \"x\": it matches every workload",
		"match = { a = \"b\" }":                               "it bounds nothing: per_node 0, total 0",
		"match = { a = \"b\" }\n total = -1":                  "it bounds nothing: per_node 0, total -1",
		"match = { a = \"b\" }\n total = 3\n soft = true":     "it is soft but has no per_node",
		"per_node = 1":                                        "match",
		"match = { a = \"b\" }\n per_node = 1\n per_host = 2": "per_host",
		"match = { a = \"b\" }\n per_node = \"lots\"":         "number",
		"match = { a = \"b\" }\n total = 1\n}\nlimit \"x\" {\n match = { a = \"b\" }\n total = 2": "limit \"x\"",
	} {
		_, err := ParseBundle("bundle.hcl", []byte("bundle \"b\" {}\nlimit \"x\" {\n "+body+"\n}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %q", body, err, want)
		}
	}
}
