package policies

import (
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

func TestJudge_DeniesWhatIsUndefined(t *testing.T) {
	set := mustLoad(t, Config{}, one("deny contains \"x\" if input.node.name\n\nnothing if input.workload.gpus > 3\n"))
	p := set.policies[0]
	query, err := p.compileQuery("nothing")
	if err != nil {
		t.Fatal(err)
	}
	p.pair = query
	got := p.judge(t.Context(), p.base(emptyView(), set.config.Timeout), ast.ObjectTerm())
	if len(got.denials) != 1 || !strings.Contains(got.denials[0], "nothing is undefined") {
		t.Errorf("denied for %q", got.denials)
	}
}
