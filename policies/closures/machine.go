package closures

import (
	"context"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/ir"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// resultKey is where OPA's plans put the value of an entry point.
var resultKey = ast.StringTerm("result")

// op is one statement. It returns what follows: next, returned, or how many
// blocks to leave, counting from 0.
type op func(m *machine) int

const (
	next     = -1 // the statement after
	returned = -2 // the function has ended, or the evaluation has failed
	leave    = 0  // this block: what was asked is undefined
)

// machine is the state of one evaluation.
type machine struct {
	local        []ast.Value // of the function that runs
	free         [][]ast.Value
	remembered   []remembered // by rule: what it gave in this evaluation
	evaluation   int
	replaced     int // how many with statements are open: what rules give may differ
	results      []ast.Value
	err          error
	steps        int
	builtin      topdown.BuiltinContext
	capabilities *ast.Capabilities
}

type remembered struct {
	evaluation int
	value      ast.Value
}

func (m *machine) run(plan *function, input, data ast.Value, budget int, cancel topdown.Cancel) ([]ast.Value, error) {
	m.evaluation++
	m.results, m.err, m.steps, m.replaced = nil, nil, budget, 0
	m.builtin = topdown.BuiltinContext{Context: context.Background(), Cancel: cancel, Capabilities: m.capabilities}
	m.local = m.frame(plan.locals)
	m.local[ir.Input], m.local[ir.Data] = input, data
	for _, block := range plan.blocks {
		if block(m); m.err != nil {
			return nil, m.err
		}
	}
	m.release(m.local)
	return m.results, nil
}

// fail ends the evaluation.
func (m *machine) fail(err error) int {
	m.err = err
	return returned
}

// step counts one call or element.
func (m *machine) step() bool {
	m.steps--
	if m.steps < 0 || m.steps&255 == 0 && m.builtin.Cancel != nil && m.builtin.Cancel.Cancelled() {
		m.err = ErrBudget
	}
	return m.err == nil
}

func (m *machine) frame(locals int) []ast.Value {
	if n := len(m.free); n > 0 && cap(m.free[n-1]) >= locals {
		frame := m.free[n-1][:locals]
		m.free = m.free[:n-1]
		return frame
	}
	return make([]ast.Value, locals, max(locals, 64))
}

// release takes a frame back, cleared so that it keeps nothing alive.
func (m *machine) release(frame []ast.Value) {
	clear(frame)
	m.free = append(m.free, frame)
}

// call runs a function; nil means undefined. Rules take input and data only:
// they are evaluated once.
func (m *machine) call(f *function, args []ast.Value) ast.Value {
	if !m.step() {
		return nil
	}
	once := len(args) == 2 && m.replaced == 0
	if once && m.remembered[f.id].evaluation == m.evaluation {
		return m.remembered[f.id].value
	}
	caller := m.local
	m.local = m.frame(f.locals)
	for i, arg := range args {
		m.local[f.params[i]] = arg
	}
	var result ast.Value
	for _, block := range f.blocks {
		if block(m) == returned {
			result = m.local[f.result]
			break
		}
	}
	m.release(m.local)
	m.local = caller
	if m.err != nil {
		return nil
	}
	if once {
		m.remembered[f.id] = remembered{m.evaluation, result}
	}
	return result
}

// locals is how many locals a function or plan uses.
func locals(x any) int {
	visitor := &counter{highest: int(ir.Unused)}
	// The visitor gives no error, so neither does Walk.
	_ = ir.Walk(visitor, x)
	return visitor.highest + 1
}

type counter struct{ highest int }

func (c *counter) Before(any) {}
func (c *counter) After(any)  {}

func (c *counter) Visit(x any) (ir.Visitor, error) {
	for _, local := range targets(x) {
		c.highest = max(c.highest, int(local))
	}
	return c, nil
}

// targets are the locals that a function or statement sets.
func targets(x any) []ir.Local {
	switch x := x.(type) {
	case *ir.Func:
		return append(slices.Clone(x.Params), x.Return)
	case *ir.CallStmt:
		return []ir.Local{x.Result}
	case *ir.CallDynamicStmt:
		return []ir.Local{x.Result}
	case *ir.DotStmt:
		return []ir.Local{x.Target}
	case *ir.LenStmt:
		return []ir.Local{x.Target}
	case *ir.ScanStmt:
		return []ir.Local{x.Key, x.Value}
	case *ir.AssignIntStmt:
		return []ir.Local{x.Target}
	case *ir.AssignVarStmt:
		return []ir.Local{x.Target}
	case *ir.AssignVarOnceStmt:
		return []ir.Local{x.Target}
	case *ir.ResetLocalStmt:
		return []ir.Local{x.Target}
	case *ir.MakeNullStmt:
		return []ir.Local{x.Target}
	case *ir.MakeNumberIntStmt:
		return []ir.Local{x.Target}
	case *ir.MakeNumberRefStmt:
		return []ir.Local{x.Target}
	case *ir.MakeArrayStmt:
		return []ir.Local{x.Target}
	case *ir.MakeObjectStmt:
		return []ir.Local{x.Target}
	case *ir.MakeSetStmt:
		return []ir.Local{x.Target}
	case *ir.ObjectMergeStmt:
		return []ir.Local{x.Target}
	}
	return nil
}
