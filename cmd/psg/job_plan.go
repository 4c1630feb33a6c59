package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/shim"
)

// The exit codes of psg job plan, as they are nomad's.
const (
	exitChanges    = 1
	exitPlanFailed = 255
)

// previewWithin is how long a preview is asked for.
const previewWithin = 30 * time.Second

// planned is what psg job plan found.
type planned struct {
	Nomad   *api.JobPlanResponse `json:"nomad"`
	Preview []psg.Verdict        `json:"preview"` // of the groups that PSG places
}

func jobPlanCommand() *command {
	p := &jobPlan{}
	return &command{
		name: "job plan", args: "[-var NAME=VALUE] [-var-file FILE] [options] FILE",
		synopsis: "Show what a registration would change, and where PSG would place it",
		help: `
Prints what would change if the job in FILE were registered, as Nomad sees it and
without what PSG adds, then for each group that PSG places where its instances
would go now, or why they would wait. Nothing is changed or reserved. A job that
policy rejects is refused with the reasons. One of a namespace in which the
controllers place no jobs is Nomad's alone.`,
		files:   "*.hcl *.json",
		failure: exitPlanFailed,
		exits:   "0 no allocation would be created or destroyed, 1 some would, 255 failed or wrong command line",
		define:  p.define,
		run:     p.run,
	}
}

// jobPlan is one psg job plan.
type jobPlan struct {
	out     output
	at      address
	nomad   nomadFlags
	source  jobSource
	noDiff  bool
	verbose bool
}

func (p *jobPlan) define(flags *flag.FlagSet) {
	p.out.define(flags)
	p.at.define(flags)
	p.nomad.define(flags)
	p.source.define(flags)
	flags.BoolVar(&p.noDiff, "no-diff", false, "do not print what changes in the job")
	flags.BoolVar(&p.verbose, "verbose", false, "print fields that do not change, and full IDs")
}

func (p *jobPlan) run(c *command, args []string) error {
	if len(args) != 1 {
		return usagef("want one job file, have %d", len(args))
	}
	client, err := p.nomad.throughProxy(p.at)
	if err != nil {
		return usageError{err}
	}
	job, _, err := p.source.read(client, args[0])
	if err != nil {
		return err
	}
	namespaced(&p.nomad, client, job)
	answer, _, err := client.Jobs().PlanOpts(job, &api.PlanOptions{Diff: !p.noDiff}, (&api.WriteOptions{}).WithContext(c.ctx))
	if err != nil {
		return told(err)
	}
	result := planned{Nomad: answer, Preview: []psg.Verdict{}}
	if managedJob(job) {
		if result.Preview, err = p.preview(c.ctx, job); err != nil {
			return err
		}
	}
	if err := p.out.print(c.stdout, result, func(w io.Writer) error { return p.show(w, job, &result) }); err != nil {
		return err
	}
	if moves(answer.Annotations) {
		return exitError(exitChanges)
	}
	return nil
}

// preview asks the controller where the job's instances would go, again and again
// while it makes as many previews for others as it may.
func (p *jobPlan) preview(ctx context.Context, job *api.Job) ([]psg.Verdict, error) {
	controllers := newPlanClient(strings.Split(string(p.at), ","))
	if outside, err := controllers.outside(ctx, p.nomad.namespace); err == nil && outside {
		return p.outside(job), nil
	}
	workloads, err := workloadsOf(job, p.nomad.namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, previewWithin)
	defer cancel()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		verdicts, err := controllers.Preview(ctx, workloads)
		if !errors.Is(err, psg.ErrBusy) {
			return verdicts, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-again.C:
		}
	}
}

// outside says of each group that it is Nomad's to place, whatever the job is.
func (p *jobPlan) outside(job *api.Job) (verdicts []psg.Verdict) {
	for _, g := range job.TaskGroups {
		if g != nil && g.Name != nil {
			id := psg.WorkloadID{Namespace: p.nomad.namespace, Job: *job.ID, Group: *g.Name}
			verdicts = append(verdicts, psg.Verdict{Workload: id, Outside: true})
		}
	}
	return verdicts
}

// managedJob reports whether PSG places any group of a job, if it does in the
// job's namespace.
func managedJob(job *api.Job) bool { return shim.Managed(job) }

// workloadsOf are those of a job that is for a namespace.
func workloadsOf(job *api.Job, namespace string) ([]psg.Workload, error) {
	own := *job
	own.Namespace = &namespace
	t, err := shim.TranslateJob(&own)
	return t.Workloads, err
}

// moves reports whether a plan creates or destroys an allocation.
func moves(plan *api.PlanAnnotations) bool {
	if plan == nil {
		return false
	}
	for _, u := range plan.DesiredTGUpdates {
		if u.Place+u.Stop+u.Migrate+u.DestructiveUpdate+u.Canary+u.Preemptions > 0 {
			return true
		}
	}
	return false
}

func (p *jobPlan) show(w io.Writer, job *api.Job, result *planned) error {
	out := &printer{w: w}
	if result.Nomad.Diff != nil {
		showDiff(out, result.Nomad.Diff, p.verbose)
		out.line("")
	}
	if result.Nomad.Warnings != "" {
		out.line("Warnings:\n%s\n", result.Nomad.Warnings)
	}
	out.line("Nomad's dry run:")
	if len(result.Nomad.FailedTGAllocs) == 0 {
		out.line("- All tasks can be allocated.")
	}
	showFailures(out, result.Nomad.FailedTGAllocs)
	if next := result.Nomad.NextPeriodicLaunch; !next.IsZero() {
		out.line("- It would be launched next at %s.", next)
	}
	if len(result.Preview) > 0 {
		out.line("\nPSG's placement:")
	}
	for _, v := range result.Preview {
		showPreview(out, &v, p.verbose)
	}
	out.line("\nJob modify index: %d", result.Nomad.JobModifyIndex)
	out.line("To register it if nobody changes the job in between: psg job run -check-index %d FILE", result.Nomad.JobModifyIndex)
	return out.err
}

func showPreview(p *printer, v *psg.Verdict, verbose bool) {
	if v.Outside {
		p.line("- group %q: none, PSG places no jobs in namespace %q", v.Workload.Group, v.Workload.Namespace)
		return
	}
	for _, node := range sortedKeys(v.Hint) {
		p.line("- group %q: %d on node %s", v.Workload.Group, v.Hint[node], shortened(string(node), verbose))
	}
	seen := map[string]int{}
	for _, waiting := range v.Waiting {
		seen[waiting.Summary]++
	}
	for _, why := range sortedKeys(seen) {
		p.line("- group %q: %d would wait: %s", v.Workload.Group, seen[why], why)
	}
	for _, waiting := range v.Waiting {
		showRefusal(p, &waiting)
		break // those of one group are alike
	}
	if v.Hold {
		p.line("- group %q: held until all of it has room", v.Workload.Group)
	}
	if len(v.Hint) == 0 && len(v.Waiting) == 0 {
		p.line("- group %q: nothing to place", v.Workload.Group)
	}
}

// showRefusal adds to a refusal's summary what else is known of it.
func showRefusal(p *printer, r *psg.Refusal) {
	for _, excluded := range r.Excluded {
		p.line("    excluded %d nodes: %s: %s", excluded.Nodes, excluded.Reason.Source, excluded.Reason.Text)
	}
	for _, remedy := range r.Remedies {
		p.line("    would fit: %s", remedy.Text)
	}
}

func shortened(id string, verbose bool) string {
	if verbose || len(id) <= 8 {
		return id
	}
	return fmt.Sprintf("%.8s", id)
}
