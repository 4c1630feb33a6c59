package main

import (
	"context"
	"flag"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/posener/complete"

	"github.com/psgrid/psg/rpc"
)

// completeWithin bounds asking for IDs: somebody waits at a prompt.
const completeWithin = time.Second

// lister lists the IDs that an argument may be.
type lister func(ctx context.Context, from *rpc.RESTClient) ([]string, error)

// AutocompleteFlags names the flags, and completes their values where they are
// files.
func (c *command) AutocompleteFlags() complete.Flags {
	flags := complete.Flags{}
	c.flagSet().VisitAll(func(f *flag.Flag) { flags["-"+f.Name] = valuesOf(f) })
	return flags
}

func valuesOf(f *flag.Flag) complete.Predictor {
	if alone, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && alone.IsBoolFlag() {
		return complete.PredictNothing
	}
	switch name, _ := flag.UnquoteUsage(f); name {
	case "file":
		return complete.PredictFiles("*")
	case "directory":
		return complete.PredictDirs("*")
	}
	return complete.PredictAnything
}

// AutocompleteArgs completes operands.
func (c *command) AutocompleteArgs() complete.Predictor {
	switch {
	case c.files != "":
		var patterns []complete.Predictor
		for pattern := range strings.FieldsSeq(c.files) {
			patterns = append(patterns, complete.PredictFiles(pattern))
		}
		return complete.PredictOr(patterns...)
	case c.ids != nil:
		return complete.PredictFunc(func(complete.Args) []string { return known(c.ctx, c.ids) })
	}
	return complete.PredictNothing
}

// known are the IDs that the controller of PSG_ADDR tells, but for those that a
// shell or a terminal would make something else of; none if it does not answer.
func known(ctx context.Context, ids lister) []string {
	var at address
	at.define(flag.NewFlagSet("", flag.ContinueOnError))
	client, err := at.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	found, err := ids(ctx, client)
	if err != nil {
		return nil
	}
	found = slices.DeleteFunc(found, func(id string) bool {
		return strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
	})
	slices.Sort(found)
	return slices.Compact(found)
}

func nodeIDs(ctx context.Context, from *rpc.RESTClient) (ids []string, err error) {
	nodes, err := from.Nodes(ctx)
	for i := range nodes {
		ids = append(ids, string(nodes[i].ID))
	}
	return ids, err
}

// jobIDs are those of the jobs in the namespace of the environment.
func jobIDs(ctx context.Context, from *rpc.RESTClient) (ids []string, err error) {
	namespace := envOr("NOMAD_NAMESPACE", "default")
	workloads, err := from.Workloads(ctx)
	for i := range workloads {
		if w := &workloads[i]; w.ID.Namespace == namespace {
			ids = append(ids, w.ID.Job)
		}
	}
	return ids, err
}

// allocIDs are those of allocations that have not ended.
func allocIDs(ctx context.Context, from *rpc.RESTClient) (ids []string, err error) {
	asks, err := from.Asks(ctx, "", "")
	for i := range asks {
		if s := &asks[i]; s.Ask.Alloc != "" && !s.Over() {
			ids = append(ids, string(s.Ask.Alloc))
		}
	}
	return ids, err
}
