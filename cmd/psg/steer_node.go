package main

import (
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
		name: "node rebalance", args: "[-empty] [-wait DURATION] [-json | -t TEMPLATE] NODE",
		ids:      nodeIDs,
		synopsis: "Move what PSG places on a node to better ones, or all of it away",
		help: `
Moves the allocations that PSG places on a node and that are better placed on
another by the scores of placement; with -empty all of them. As many move at a
time as their groups can spare: never fewer run than count less
migrate.max_parallel, one when there is no migrate block, and less what the
stanza's disruption block says. Where the group allows it another is started
first. What has nowhere to go stays. Prints each move, and what it came to: the
time in which neither of the two ran, the job versions and the writes to Nomad.

To empty a node, mark it ineligible in Nomad first (nomad node eligibility
-disable), or new work may come.`,
		define: func(flags *flag.FlagSet) {
			at.define(flags)
			out.define(flags)
			flags.BoolVar(&empty, "empty", false, "move everything away")
			flags.IntVar(&most, "max", 0, "most `moves` begun at once; 0 means a few")
			flags.DurationVar(&wait, "wait", 5*time.Minute, "`time` to go on for; 0 begins what can be begun now")
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

	begun map[psg.AllocID]bool // and not ended yet
	ended []psg.Move
}

func (m *mover) run(wait time.Duration) error {
	ctx, cancel := context.WithTimeout(m.c.ctx, max(wait, 30*time.Second))
	defer cancel()
	m.begun = map[psg.AllocID]bool{}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for began := time.Now(); ; {
		answer, err := m.ask(ctx)
		busy := errors.Is(err, psg.ErrBusy)
		if err != nil && !busy || busy && time.Since(began) >= wait {
			return err
		}
		rests := len(answer.Orders) == 0 && len(m.begun) == 0
		done := !busy && rests && (!m.body.Empty || answer.On == 0)
		if done || time.Since(began) >= wait {
			return m.conclude(answer.On, done || wait == 0)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// ask begins what can be begun, and takes in what has ended since.
func (m *mover) ask(ctx context.Context) (answer rebalanced, err error) {
	if err := m.at.ask(ctx, moveWithin, nodePath(m.node, "rebalance"), m.body, &answer); err != nil {
		return answer, err
	}
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
	return answer, nil
}

// conclude prints what came of it. It is a no when the node was to be empty and
// is not, or moves have yet to end.
func (m *mover) conclude(on int, well bool) error {
	type conclusion struct {
		Moves []psg.Move `json:"moves"`
		Open  int        `json:"open"` // begun, and not seen to end
		On    int        `json:"on"`
	}
	if m.ended == nil {
		m.ended = []psg.Move{}
	}
	value := conclusion{m.ended, len(m.begun), on}
	err := m.out.print(m.c.stdout, value, func(w io.Writer) error {
		p := &printer{w: w}
		for _, move := range m.ended {
			if move.GivenUp != "" {
				p.line("%.8s stays: %s", move.Alloc, move.GivenUp)
				continue
			}
			p.line("%.8s is now %.8s on %s: gap %v, %d job versions and %d writes for %d moves", move.Alloc, move.Successor, move.To,
				move.Gap.Round(time.Millisecond), move.Versions, move.Writes, move.Together)
		}
		p.line("%d moved, %d not seen to end, %d left on the node", len(m.ended), len(m.begun), on)
		return p.err
	})
	if err == nil && !well {
		return errNo
	}
	return err
}
