package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/shim"
)

func jobTranslateCommand() *command {
	var asJSON bool
	return &command{
		name: "job translate", args: "[-json] FILE",
		synopsis: "Show a Nomad job as PSG's workload model, and what the model does not carry",
		help: `
Reads Nomad job JSON (bare, in {"Job": …}, or what 'nomad job run -output'
writes) from FILE, or from standard input for "-". Prints each task group as a
workload with the unit of every quantity, then every field of the job that the
model does not carry, with its JSON path.`,
		files: "*.json",
		define: func(flags *flag.FlagSet) {
			flags.BoolVar(&asJSON, "json", false, "print JSON")
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 {
				return usagef("want one file, have %d", len(args))
			}
			data, err := readFile(args[0])
			if err != nil {
				return err
			}
			if err := shim.Describe(c.stdout, data, asJSON); err != nil {
				return fmt.Errorf("%s: %w", sourceName(args[0]), err)
			}
			return nil
		},
	}
}

func sourceName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func jobExplainCommand() *command {
	var out output
	var at address
	var namespace string
	return &command{
		name: "job explain", args: "[-namespace NAME] [-json | -t TEMPLATE] JOB",
		ids:      jobIDs,
		synopsis: "Say where a job's instances were placed, or why not",
		help: `
Prints, for each instance of the job, its state, node and what made that node the
best; for one that is not placed how many nodes each reason excludes, the nodes
that come nearest, and single changes of which each would have made it fit. What
Nomad's blocked evaluations of the job wait for stands last, as it was seen within
the last half minute.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
			flags.StringVar(&namespace, "namespace", envOr("NOMAD_NAMESPACE", "default"), "the job's `namespace`")
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
			blocked, unknown := blockages(c.ctx, at, namespace, args[0])
			if unknown != nil && !errors.Is(unknown, psg.ErrUnavailable) {
				return unknown
			}
			if len(asks) == 0 && len(blocked) == 0 {
				err := fmt.Errorf("no instance of job %q in namespace %q has asked for a place", args[0], namespace)
				if unknown != nil {
					err = fmt.Errorf("%w; what Nomad waits for is not known: %w", err, unknown)
				}
				return err
			}
			return out.print(c.stdout, asks, func(w io.Writer) error {
				var errs []error
				for i := range asks {
					errs = append(errs, explain(w, &asks[i]))
				}
				return errors.Join(append(errs, explainBlocked(w, blocked, unknown))...)
			})
		},
	}
}

func allocExplainCommand() *command {
	var out output
	var at address
	return &command{
		name: "alloc explain", args: "[-json | -t TEMPLATE] ALLOC",
		ids:      allocIDs,
		synopsis: "Say why an allocation runs where it does, or why it waits",
		help: `
ALLOC is an allocation ID or the beginning of one. Prints its state, node and
cards, what made that node the best, or what keeps it waiting.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 {
				return usagef("want one allocation ID, have %d", len(args))
			}
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			status, err := client.Ask(c.ctx, args[0])
			if err != nil {
				return err
			}
			return out.print(c.stdout, status, func(w io.Writer) error { return explain(w, &status) })
		},
	}
}

// explain writes where one ask stands and why.
func explain(w io.Writer, s *psg.AskStatus) error {
	p := &printer{w: w}
	p.line("%s\t%s\t%s", s.Ask.ID, s.Ask.Workload, s.State)
	if s.Reason != "" {
		p.line("  because\t%s", s.Reason)
	}
	if placed := s.Placement; placed != nil {
		p.line("  node\t%s", placed.Node)
		for _, victim := range placed.Victims {
			p.line("  waits for\t%s to end", victim)
		}
		p.line("  holds\t%s", placed.Request)
		for _, share := range placed.Devices {
			p.line("  card\t%s (%d milli-GPU, %d MiB)", share.Device, share.MilliGPU, share.MemoryMB)
		}
		for _, reason := range placed.Audit {
			p.line("  audit\twould be denied: %s: %s", reason.Source, reason.Text)
		}
		for _, part := range placed.Score {
			p.line("  score\t%s %+.3f", part.Name, float64(part.Points)/1000)
		}
	}
	if refused := s.Refusal; refused != nil {
		p.line("  why\t%s", refused.Summary)
		for _, excluded := range refused.Excluded {
			p.line("  excluded\t%d nodes: %s: %s", excluded.Nodes, excluded.Reason.Source, excluded.Reason.Text)
		}
		for _, miss := range refused.Nearest {
			for _, missing := range miss.Missing {
				p.line("  nearest\t%s lacks %s: %s", miss.Node, missing.Source, missing.Text)
			}
		}
		for _, remedy := range refused.Remedies {
			p.line("  would fit\t%s", remedy.Text)
		}
	}
	return p.err
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
