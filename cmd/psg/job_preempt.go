package main

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

// preemptRequest is the body of POST /v1/preempt: an ask that waits, where to
// make the room, and how many may end at most; both may be left out.
type preemptRequest struct {
	Ask        psg.RequestID `json:"ask"`
	Node       psg.NodeID    `json:"node,omitempty"`
	MaxVictims int           `json:"max_victims,omitempty"`
}

// preempted answers it: the stops that are under way, or why nobody makes way.
type preempted struct {
	Ask     psg.RequestID `json:"ask"`
	Orders  []psg.Order   `json:"orders"`
	Refusal *psg.Refusal  `json:"refusal,omitempty"`
}

func preempt(decider rpc.Preempter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request preemptRequest
		body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<14))
		body.DisallowUnknownFields()
		if err := body.Decode(&request); err != nil {
			rpc.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		orders, refusal, err := decider.Preempt(r.Context(), request.Ask, request.Node, request.MaxVictims)
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		rpc.WriteJSON(w, http.StatusOK, preempted{request.Ask, append([]psg.Order{}, orders...), refusal})
	}
}

func jobPreemptCommand() *command {
	var out output
	var at address
	var namespace string
	var want preemptRequest
	return &command{
		name: "job preempt", args: "[-namespace NAME] [-node NODE] [-max-victims N] [-json | -t TEMPLATE] JOB",
		ids:      jobIDs,
		synopsis: "Make room for a job's queued instances by stopping others",
		help: `
For each instance of the job that is queued, stops as few running instances as
make it fit, those of the lowest priority: only of jobs whose psg stanza says
preemptible, of lower priority, and that no policy protects. Each is given its
kill_timeout to end, and Nomad starts another in its place, which waits. The room
is held for the job from the moment this is decided. 'psg job explain' says
beforehand which one would have to end, where one is enough.

A gang gets room for all its instances or for none: what is stopped for one is
stopped for all of it, and -max-victims is for them together.

Fails if an instance could not be helped.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
			flags.StringVar(&namespace, "namespace", envOr("NOMAD_NAMESPACE", "default"), "the job's `namespace`")
			flags.StringVar((*string)(&want.Node), "node", "", "`node` ID where to make the room; empty means anywhere")
			flags.IntVar(&want.MaxVictims, "max-victims", 0, "`number` of instances that may be stopped for each; 0 means any")
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 {
				return usagef("want one job ID, have %d", len(args))
			}
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			asks, err := client.Asks(c.ctx, namespace, args[0])
			if err != nil {
				return err
			}
			answers := []preempted{}
			for i := range asks {
				if asks[i].State != psg.Queued {
					continue
				}
				want.Ask = asks[i].Ask.ID
				var answer preempted
				if err := at.ask(c.ctx, askWithin, "/v1/preempt", want, &answer); err != nil {
					return err
				}
				answers = append(answers, answer)
			}
			if err := out.print(c.stdout, answers, func(w io.Writer) error { return listPreempted(w, answers) }); err != nil {
				return err
			}
			for _, answer := range answers {
				if answer.Refusal != nil {
					return errNo
				}
			}
			return nil
		},
	}
}

func listPreempted(w io.Writer, answers []preempted) error {
	p, told := &printer{w: w}, map[psg.AllocID]bool{}
	if len(answers) == 0 {
		p.line("no instance is queued")
	}
	for _, answer := range answers {
		switch {
		case answer.Refusal != nil:
			p.line("%s\twaits: %s", answer.Ask, answer.Refusal.Summary)
		case len(answer.Orders) == 0:
			p.line("%s\thas room as it is", answer.Ask)
		}
		for _, order := range answer.Orders {
			if !told[order.Alloc] { // for another of its gang
				p.line("%s\tstops %s of %s on %s", answer.Ask, order.Alloc, order.Workload, order.Node)
			}
			told[order.Alloc] = true
		}
	}
	return p.err
}
