package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/rpc"
)

// rebalanced answers POST /v1/node/{id}/rebalance: the moves that were begun,
// and how many allocations that PSG places are on the node.
type rebalanced struct {
	Orders []psg.Order `json:"orders"`
	On     int         `json:"on"`
}

func rebalance(decider *controller.Controller) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Max int `json:"max"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&request); err != nil {
			rpc.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		node := psg.NodeID(r.PathValue("id"))
		orders, err := decider.Rebalance(r.Context(), node, request.Max)
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		rpc.WriteJSON(w, http.StatusOK, rebalanced{orders, onNode(decider.Snapshot(), node)})
	}
}

func onNode(view *psg.Snapshot, node psg.NodeID) (n int) {
	for _, p := range view.Placements {
		w := view.Workload(p.Ask.Workload)
		if p.Node == node && p.Ask.Alloc != "" && w != nil && w.Managed() && !w.Type.EveryNode() {
			n++
		}
	}
	return n
}

func nodeRebalanceCommand() *command {
	var at address
	var wait time.Duration
	return &command{
		name: "node rebalance", args: "[-wait DURATION] NODE",
		synopsis: "Move what PSG places on a node to others",
		help: `
Moves the allocations that PSG places on a node, as many at a time as their
groups can spare: never fewer run than count less migrate.max_parallel, one when
there is no migrate block. What has nowhere to go stays. Prints each move.

Mark the node ineligible in Nomad first (nomad node eligibility -disable), or new
work may come.`,
		define: func(flags *flag.FlagSet) {
			at.define(flags)
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
			return c.empty(string(at), node.ID, wait)
		},
	}
}

// empty asks for moves until nothing is left on a node, or its time is over.
func (c *command) empty(address string, node psg.NodeID, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(c.ctx, max(wait, 30*time.Second))
	defer cancel()
	began, moves := time.Now(), 0
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		var answer rebalanced
		body, _ := json.Marshal(map[string]int{"max": 0}) // a number always has its JSON
		target := strings.TrimSuffix(address, "/") + "/v1/node/" + url.PathEscape(string(node)) + "/rebalance"
		if err := newPlanClient(nil).postTo(ctx, target, body, &answer); err != nil {
			return err
		}
		for _, order := range answer.Orders {
			fmt.Fprintf(c.stdout, "%s  %s  to %s\n", order.Alloc, order.Workload, order.Node)
		}
		moves += len(answer.Orders)
		if answer.On == 0 || time.Since(began) >= wait {
			fmt.Fprintf(c.stdout, "%d moved, %d left on the node\n", moves, answer.On)
			if answer.On > 0 && wait > 0 {
				return errNo
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}
