package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// verdict is what one policy says of one pair. It is immutable.
type verdict struct {
	denials []string // sorted, distinct; with fault, just that
	scores  []score  // by reason, one of each; none with fault
	timeout bool     // the fault is that it took too long: not to be remembered
}

type score struct {
	reason string
	points int64 // milli-points, weighted
}

func (s score) compare(other score) int {
	return cmp.Or(cmp.Compare(s.reason, other.reason), cmp.Compare(s.points, other.points))
}

// nothing is the verdict of a policy that neither denies nor favours.
var nothing = &verdict{}

// maxPoints bounds the points of one score either way, so that sums stay exact.
const maxPoints = 1e9

// base is the data a policy reads in one view, ready to be read concurrently.
type base struct {
	store   storage.Store
	data    ast.Object // the same
	timeout time.Duration
}

func (p *policy) base(v *view, timeout time.Duration) base {
	data := p.data(v)
	return base{inmem.NewFromASTObject(data), data, timeout}
}

// data is what a policy may read of data in a view.
func (p *policy) data(v *view) ast.Object {
	fields := [][2]*ast.Term{field("params", p.params)}
	if v.cluster != nil && p.reads.cluster {
		fields = append(fields, field("cluster", v.cluster))
	}
	for _, name := range p.reads.sources {
		if value, ok := v.sources[name]; ok {
			fields = append(fields, field(name, value))
		}
	}
	return ast.NewObject(fields...)
}

// errTimeout says that an evaluation ran out of its time.
var errTimeout = errors.New("timeout")

// ask evaluates a query and returns the set that each of its rules gave.
// OPA polls for the cancellation; a builtin that does not ends first.
func (p *policy) ask(ctx context.Context, q *query, b base, input *ast.Term) (sets map[ast.Var]ast.Set, err error) {
	// OPA runs what users wrote: a panic there must not take the controller down.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("evaluation panicked: %v", r)
		}
	}()
	txn, err := b.store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("read data: %w", err)
	}
	defer b.store.Abort(ctx, txn)
	cancel := topdown.NewCancel()
	timer := time.AfterFunc(b.timeout, cancel.Cancel)
	defer timer.Stop()
	evaluation := topdown.NewQuery(q.body).WithQueryCompiler(q.compiler).WithCompiler(p.compiler).
		WithStore(b.store).WithTransaction(txn).WithInput(input).WithStrictBuiltinErrors(true).WithCancel(cancel)
	sets = make(map[ast.Var]ast.Set, len(q.rules))
	err = evaluation.Iter(ctx, func(result topdown.QueryResult) error {
		for _, rule := range q.rules {
			set, ok := result[ast.Var(rule)].Value.(ast.Set)
			if !ok {
				return fmt.Errorf("%s gave no set", rule)
			}
			sets[ast.Var(rule)] = set
		}
		return nil
	})
	switch {
	case topdown.IsCancel(err):
		return nil, errTimeout
	case err != nil:
		return nil, err
	case len(sets) != len(q.rules):
		return nil, fmt.Errorf("%s is undefined", strings.Join(q.rules, " or "))
	}
	return sets, nil
}

// judge has OPA evaluate deny and score on one pair.
func (p *policy) judge(ctx context.Context, b base, input *ast.Term) *verdict {
	sets, err := p.ask(ctx, p.pair, b, input)
	if err == nil {
		var out *verdict
		if out, err = p.verdict(sets["deny"], sets["score"]); err == nil {
			return out
		}
	}
	return &verdict{denials: []string{p.fault(err, b)}, timeout: errors.Is(err, errTimeout)}
}

// verdict reads what deny and score gave.
func (p *policy) verdict(deny, score ast.Set) (*verdict, error) {
	denials, err := reasons("deny", deny)
	if err != nil {
		return nil, err
	}
	scores, err := p.scores(score)
	if err != nil {
		return nil, err
	}
	if denials == nil && scores == nil {
		return nothing, nil
	}
	return &verdict{denials: denials, scores: scores}, nil
}

// sayOnce evaluates a rule of reasons about the workload alone.
func (p *policy) sayOnce(ctx context.Context, q *query, b base, input *ast.Term) []string {
	rule := q.rules[0]
	sets, err := p.ask(ctx, q, b, input)
	if err == nil {
		var said []string
		if said, err = reasons(rule, sets[ast.Var(rule)]); err == nil {
			return said
		}
	}
	return []string{p.fault(err, b)}
}

// fault is the reason that an evaluation gives when it has none of its own.
func (p *policy) fault(err error, b base) string {
	if errors.Is(err, errTimeout) {
		return fmt.Sprintf("evaluation took longer than %s", b.timeout)
	}
	var opa *topdown.Error
	if errors.As(err, &opa) && opa.Location != nil {
		return fmt.Sprintf("evaluation error: %s:%d: %s", p.spec.Rego, opa.Location.Row, strings.Join(strings.Fields(opa.Message), " "))
	}
	return fmt.Sprintf("evaluation error: %s: %v", p.spec.Rego, err)
}

// reasons reads a set of strings, sorted; nil when it is empty.
func reasons(rule string, set ast.Set) ([]string, error) {
	if set == nil || set.Len() == 0 {
		return nil, nil
	}
	out := make([]string, 0, set.Len())
	for _, term := range set.Slice() {
		reason, ok := term.Value.(ast.String)
		if !ok {
			return nil, fmt.Errorf("%s gave %v, which is not a string", rule, term)
		}
		out = append(out, string(reason))
	}
	slices.Sort(out)
	return out, nil
}

// scores reads a set of [reason, points].
func (p *policy) scores(set ast.Set) ([]score, error) {
	if set == nil || set.Len() == 0 {
		return nil, nil
	}
	out := make([]score, 0, set.Len())
	for _, term := range set.Slice() {
		pair, ok := term.Value.(*ast.Array)
		if !ok || pair.Len() != 2 {
			return nil, fmt.Errorf("score gave %v, which is not [reason, points]", term)
		}
		reason, isText := pair.Elem(0).Value.(ast.String)
		if _, isNumber := pair.Elem(1).Value.(ast.Number); !isText || !isNumber {
			return nil, fmt.Errorf("score gave %v, which is not a string with a number", term)
		}
		points, ok := milliPoints(pair.Elem(1).Value, p.spec.Weight)
		if !ok {
			return nil, fmt.Errorf("score gave %v: points are outside -1e9..1e9", term)
		}
		out = append(out, score{string(reason), points})
	}
	return merged(out), nil
}

// merged sorts scores by reason and adds up those of one reason.
func merged(scores []score) []score {
	slices.SortFunc(scores, func(a, b score) int { return cmp.Compare(a.reason, b.reason) })
	out := scores[:1]
	for _, next := range scores[1:] {
		if last := &out[len(out)-1]; last.reason == next.reason {
			last.points += next.points
		} else {
			out = append(out, next)
		}
	}
	return out
}
