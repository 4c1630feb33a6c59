package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/rpc"
)

// rebalanced answers POST /v1/node/{id}/rebalance: the moves that were begun,
// those that have ended, and how many allocations that PSG places are on the node.
type rebalanced struct {
	psg.Rebalanced
	On int `json:"on"`
}

// rebalanceBody is what is posted there.
type rebalanceBody struct {
	Empty bool `json:"empty"`
	Max   int  `json:"max"`
}

func rebalance(decider *controller.Controller) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request rebalanceBody
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&request); err != nil {
			rpc.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		node := psg.NodeID(r.PathValue("id"))
		done, err := decider.Rebalance(r.Context(), psg.Rebalance{Node: node, Empty: request.Empty, Max: request.Max})
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		rpc.WriteJSON(w, http.StatusOK, rebalanced{done, onNode(decider.Snapshot(), node)})
	}
}

func onNode(view *psg.Snapshot, node psg.NodeID) (n int) {
	for p := range view.Placements.All() {
		w := view.Workload(p.Ask.Workload)
		if p.Node == node && p.Ask.Alloc != "" && w != nil && w.Managed() && !w.Type.EveryNode() {
			n++
		}
	}
	return n
}

func nodeRebalanceCommand() *command {
	var at address
	var out output
	var wait time.Duration
	var empty bool
	var most int
	return &command{
		name: "node rebalance", args: "[-empty] [-max N] [-wait DURATION] [-json | -t TEMPLATE] NODE",
		ids:      nodeIDs,
		synopsis: "Move what PSG places on a node to better ones, or all of it away",
		help: `
Moves the allocations that PSG places on a node and that are better placed on
another by the scores of placement; with -empty all of them. As many move at a
time as their groups can spare: never fewer run than count less
migrate.max_parallel, one when there is no migrate block, and less what the
stanza's disruption block says. Where the group allows it another is started
first. Prints each move, and what it came to: the time in which neither of the two
ran, the job versions, and the requests to Nomad that write, each of which is
several entries of its log. Then what stays, and why. What has begun when -wait is
over, or when the command is interrupted, goes on without it.

To empty a node, mark it ineligible in Nomad first (nomad node eligibility
-disable), or new work may come.`,
		define: func(flags *flag.FlagSet) {
			at.define(flags)
			out.define(flags)
			flags.BoolVar(&empty, "empty", false, "move everything away")
			flags.IntVar(&most, "max", 0, "most moves, `N`, begun at once; 0 means a few")
			flags.DurationVar(&wait, "wait", 5*time.Minute, "`time` to go on beginning moves for; 0 begins what can be begun now")
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 {
				return usagef("want one node ID, have %d", len(args))
			}
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			node, err := client.Node(c.ctx, args[0])
			if err != nil {
				return err
			}
			m := mover{c: c, out: out, at: at, node: node.ID, body: rebalanceBody{empty, most}}
			return m.run(wait)
		},
	}
}

// mover asks for moves off a node until nothing is left to do.
type mover struct {
	c    *command
	out  output
	at   address
	node psg.NodeID
	body rebalanceBody
	look time.Duration // between two requests; default 1 s

	begun    map[psg.AllocID]bool // and not ended yet
	ended    []psg.Move
	answered bool
	last     rebalanced // the last answer
}

func (m *mover) run(wait time.Duration) error {
	m.begun = map[psg.AllocID]bool{}
	again := time.NewTicker(cmp.Or(m.look, time.Second))
	defer again.Stop()
	for began := time.Now(); ; {
		err := m.ask(m.c.ctx)
		// Others may be moved, or another controller may be about to lead.
		passing := errors.Is(err, psg.ErrBusy) || m.answered && errors.Is(err, psg.ErrUnavailable)
		over := time.Since(began) >= wait
		rests := err == nil && len(m.last.Orders) == 0 && len(m.begun) == 0
		done := rests && (!m.body.Empty || m.last.On == 0)
		if err != nil && !passing || done || over {
			return m.conclude(err, done || wait == 0)
		}
		select {
		case <-m.c.ctx.Done():
			return m.conclude(m.c.ctx.Err(), false)
		case <-again.C:
		}
	}
}

// ask begins what can be begun, and takes in what has ended since.
func (m *mover) ask(ctx context.Context) error {
	var answer rebalanced
	if err := m.at.ask(ctx, moveWithin, nodePath(m.node, "rebalance"), m.body, &answer); err != nil {
		return err
	}
	m.last, m.answered = answer, true
	for _, order := range answer.Orders {
		m.begun[order.Alloc] = true
		if m.out.people() {
			fmt.Fprintf(m.c.stdout, "%s  %s  to %s\n", word(order.Alloc), word(order.Workload.String()), word(order.Node))
		}
	}
	for _, move := range answer.Finished {
		if m.begun[move.Alloc] {
			delete(m.begun, move.Alloc)
			m.ended = append(m.ended, move)
		}
	}
	return nil
}

// conclusion is what has come of moves.
type conclusion struct {
	Moves []psg.Move `json:"moves"`
	Open  int        `json:"open"`  // begun, and not seen to end
	On    int        `json:"on"`    // left on the node
	Stays []psg.Stay `json:"stays"` // of those, what was not begun to move, and why
}

// conclude prints what has come of it, also when it ends with an error, unless
// nothing has. It is a no when the node was to be empty and is not, or moves have
// yet to end.
func (m *mover) conclude(failed error, well bool) error {
	if !m.answered {
		return failed
	}
	value := conclusion{append([]psg.Move{}, m.ended...), len(m.begun), m.last.On, append([]psg.Stay{}, m.last.Stays...)}
	err := m.out.print(m.c.stdout, value, value.show)
	switch {
	case failed != nil:
		return errors.Join(failed, err)
	case err == nil && !well:
		return errNo
	}
	return err
}

func (v conclusion) show(w io.Writer) error {
	p, moved := &printer{w: w}, 0
	for _, move := range v.Moves {
		if move.GivenUp != "" {
			p.line("%.8s stays: %s", move.Alloc, move.GivenUp)
			continue
		}
		moved++
		p.line("%.8s is now %.8s on %s: gap %v; %s and %s for %s", move.Alloc, move.Successor, move.To, move.Gap.Round(time.Millisecond),
			several(move.Versions, "job version"), several(move.Writes, "write request"), several(move.Together, "move"))
	}
	for _, stay := range v.Stays {
		p.line("%.8s of %s stays: %s", stay.Alloc, stay.Workload, stay.Reason)
	}
	p.line("%d moved, %d given up, %d not seen to end, %d left on the node", moved, len(v.Moves)-moved, v.Open, v.On)
	return p.err
}

// several is a number of things.
func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
