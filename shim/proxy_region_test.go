package shim

import (
	"net/http"
	"testing"
)

func TestProxy_JudgesJobsOfItsOwnRegionAlone(t *testing.T) {
	for name, one := range map[string]struct {
		own, known string // what the operator says, and Nomad
		path, job  string
		judged     bool
	}{
		"none is named":               {"", `["eu"]`, "/v1/jobs", "", true},
		"global is any":               {"eu", "", "/v1/jobs", `,"Region":"global"`, true},
		"the operator's":              {"eu", "", "/v1/jobs?region=eu", "", true},
		"another than the operator's": {"eu", `["us"]`, "/v1/jobs", `,"Region":"us"`, false},
		"the only one":                {"", `["eu"]`, "/v1/jobs", `,"Region":"eu"`, true},
		"another than the only one":   {"", `["eu"]`, "/v1/jobs?region=us", "", false},
		"one of several":              {"", `["eu","us"]`, "/v1/jobs?region=us", "", false},
		"nomad does not say":          {"", "", "/v1/jobs?region=us", "", false},
	} {
		b := newBehind(t, &planner{reject: "everything"}, true)
		b.config(func(c *ProxyConfig) { c.Region = one.own })
		b.regions = one.known
		code, answer := b.put(t, one.path, managedJob(one.job))
		if judged := code == http.StatusBadRequest; judged != one.judged {
			t.Errorf("%s: %d %s, want it judged: %t", name, code, answer, one.judged)
		}
	}
}
