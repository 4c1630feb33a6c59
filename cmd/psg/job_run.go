package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

// exitUnplaced is the exit code of a run of which not all could be placed, as it
// is nomad's.
const exitUnplaced = 2

// ran is what psg job run did.
type ran struct {
	Evaluation     string                           `json:"evaluation,omitempty"` // none for jobs that only launch others
	JobModifyIndex uint64                           `json:"job_modify_index"`
	Warnings       string                           `json:"warnings,omitempty"`
	Failed         map[string]*api.AllocationMetric `json:"failed,omitempty"` // groups of which Nomad could not place all
	Instances      []psg.AskStatus                  `json:"instances"`
}

func jobRunCommand() *command {
	r := &jobRun{}
	return &command{
		name: "job run", args: "[-var NAME=VALUE] [-var-file FILE] [-detach] [-check-index N] [options] FILE",
		synopsis: "Register a job with PSG's say, and follow where it goes",
		help: `
Registers a Nomad job, HCL or JSON, from FILE, or from standard input for "-", as
psg shim proxy would: policy judges it, and a refusal is printed as Nomad prints
errors; what is admitted is planned, and registered where PSG wants it. A job of a
namespace in which the controllers place no jobs is registered as it is. Then
follows until Nomad has evaluated it and each of its instances has an answer.

HCL is parsed by Nomad, so that functions that read files are not there.
Variables come from -var, -var-file, and NOMAD_VAR_ environment variables.`,
		files:  "*.hcl *.json",
		exits:  "0 everything has its place, 1 failed, 2 not everything could be placed, or wrong command line",
		define: r.define,
		run:    r.run,
	}
}

// jobRun is one psg job run.
type jobRun struct {
	out      output
	at       address
	nomad    nomadFlags
	source   jobSource
	detach   bool
	verbose  bool
	preserve bool
	index    int64
	wait     time.Duration

	places bool // PSG places the job, as far as is known
}

func (r *jobRun) define(flags *flag.FlagSet) {
	r.out.define(flags)
	r.at.define(flags)
	r.nomad.define(flags)
	r.source.define(flags)
	flags.BoolVar(&r.detach, "detach", false, "do not follow")
	flags.BoolVar(&r.preserve, "preserve-counts", false, "keep the counts that the job has")
	flags.Int64Var(&r.index, "check-index", -1, "register only if the job's modify `index` is this; 0 means it does not exist")
	flags.DurationVar(&r.wait, "wait", 30*time.Second, "`time` to follow for")
	flags.BoolVar(&r.verbose, "verbose", false, "print full IDs")
}

func (r *jobRun) run(c *command, args []string) error {
	if len(args) != 1 {
		return usagef("want one job file, have %d", len(args))
	}
	client, err := r.nomad.throughProxy(r.at)
	if err != nil {
		return usageError{err}
	}
	job, submission, err := r.source.read(client, args[0])
	if err != nil {
		return err
	}
	namespaced(&r.nomad, client, job)
	options := &api.RegisterOptions{Submission: submission, PreserveCounts: r.preserve}
	if r.index >= 0 {
		options.EnforceIndex, options.ModifyIndex = true, uint64(r.index)
	}
	registered, _, err := client.Jobs().RegisterOpts(job, options, (&api.WriteOptions{}).WithContext(c.ctx))
	if err != nil {
		return told(err)
	}
	result := ran{
		Evaluation: registered.EvalID, JobModifyIndex: registered.JobModifyIndex, Warnings: registered.Warnings, Instances: []psg.AskStatus{},
	}
	waiting := false
	if registered.EvalID != "" && !r.detach {
		r.places = r.placed(c.ctx, job)
		if waiting, err = r.follow(c.ctx, client, job, &result); err != nil {
			return err
		}
	}
	if err := r.out.print(c.stdout, result, func(w io.Writer) error { return r.show(w, job, &result) }); err != nil {
		return err
	}
	if waiting || len(result.Failed) > 0 {
		return exitError(exitUnplaced)
	}
	return nil
}

// namespaced settles the namespace that a job is for, as nomad does: the job's
// own goes before the environment's.
func namespaced(flags *nomadFlags, client *api.Client, job *api.Job) {
	if job.Namespace != nil && *job.Namespace != "" {
		flags.namespace = *job.Namespace
		client.SetNamespace(*job.Namespace)
	}
	if job.Region != nil && *job.Region != "" && *job.Region != api.GlobalRegion {
		client.SetRegion(*job.Region)
	}
}

// follow waits until the evaluation is over and each instance has an answer, and
// reports whether any of them waits.
func (r *jobRun) follow(ctx context.Context, client *api.Client, job *api.Job, into *ran) (waiting bool, err error) {
	rest, err := r.at.client()
	if err != nil {
		return false, usageError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		evaluation, _, err := client.Evaluations().Info(into.Evaluation, (&api.QueryOptions{}).WithContext(ctx))
		if err != nil {
			return false, told(err)
		}
		done := evaluation.Status != api.EvalStatusPending
		into.Failed = evaluation.FailedTGAllocs
		asks, answered, waits := r.stand(ctx, rest, job)
		into.Instances, waiting = asks, waits
		if done && answered {
			return waiting, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return waiting || !done, nil
			}
			return false, ctx.Err()
		case <-poll.C:
		}
	}
}

// placed reports whether PSG places the job: any group of it, and any jobs in its
// namespace. It does if that cannot be told.
func (r *jobRun) placed(ctx context.Context, job *api.Job) bool {
	if !managedJob(job) {
		return false
	}
	outside, err := newPlanClient(strings.Split(string(r.at), ",")).outside(ctx, r.nomad.namespace)
	return err != nil || !outside
}

// stand is where the job's instances stand, whether each has an answer, and
// whether one that is wanted has no place.
func (r *jobRun) stand(ctx context.Context, rest *rpc.RESTClient, job *api.Job) (asks []psg.AskStatus, answered, waits bool) {
	all, err := rest.Asks(ctx, r.nomad.namespace, *job.ID)
	if err != nil {
		return []psg.AskStatus{}, !r.places, r.places
	}
	asks, answered = []psg.AskStatus{}, true
	for _, status := range all {
		if status.Over() {
			continue
		}
		asks = append(asks, status)
		waits = waits || status.Placement == nil
		answered = answered && (status.Placement != nil || status.Refusal != nil)
	}
	return asks, answered && (len(asks) > 0 || !r.places), waits
}

func (r *jobRun) show(w io.Writer, job *api.Job, result *ran) error {
	p := &printer{w: w}
	if result.Warnings != "" {
		p.line("Warnings:\n%s\n", result.Warnings)
	}
	if result.Evaluation == "" {
		p.line("Job %q is registered: it launches others", *job.ID)
		return p.err
	}
	p.line("Job %q is registered, evaluation %s", *job.ID, shortened(result.Evaluation, r.verbose))
	if r.detach {
		return p.err
	}
	showFailures(p, result.Failed)
	return errors.Join(p.err, showInstances(w, result.Instances, r.verbose))
}
