package main

import (
	"errors"
	"flag"
	"io"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
	"github.com/psgrid/psg/shim"
)

// jobLine is one job in the list of psg job status.
type jobLine struct {
	Namespace string            `json:"namespace"`
	Job       string            `json:"job"`
	Type      string            `json:"type"`
	Priority  int               `json:"priority"`
	Status    string            `json:"status"`
	Managed   bool              `json:"managed"`
	Instances map[psg.State]int `json:"instances"`
}

// jobStanding is one job as Nomad and PSG see it.
type jobStanding struct {
	Job         *api.Job                  `json:"job"`
	Summary     *api.JobSummary           `json:"summary"`
	Deployment  *api.Deployment           `json:"deployment,omitempty"`
	Allocations []*api.AllocationListStub `json:"allocations"`
	Workloads   []psg.Workload            `json:"workloads"` // groups that PSG places
	Instances   []psg.AskStatus           `json:"instances"`
	Blocked     []psg.Blockage            `json:"blocked"` // what Nomad waits for
}

func jobStatusCommand() *command {
	s := &jobStatus{}
	return &command{
		name: "job status", args: "[-namespace NAME] [-verbose] [-json | -t TEMPLATE] [JOB]",
		ids:      jobIDs,
		synopsis: "List jobs, or show one as Nomad and PSG see it",
		help: `
Without JOB, a line for each job in the namespace ("*" for all). With a job ID, or
the beginning of one: its groups with Nomad's counts beside PSG's, what Nomad's
blocked evaluations wait for, and each allocation with its state in both and the
reason that the gate shows.`,
		define: s.define,
		run:    s.run,
	}
}

// jobStatus is one psg job status.
type jobStatus struct {
	out     output
	at      address
	nomad   nomadFlags
	verbose bool
}

func (s *jobStatus) define(flags *flag.FlagSet) {
	s.out.define(flags)
	s.at.define(flags)
	s.nomad.define(flags)
	flags.BoolVar(&s.verbose, "verbose", false, "print full IDs, and what placement scored")
}

func (s *jobStatus) run(c *command, args []string) error {
	if len(args) > 1 {
		return usagef("want at most one job ID, have %d", len(args))
	}
	rest, err := s.at.client()
	if err != nil {
		return usageError{err}
	}
	client, err := s.nomad.client()
	if err != nil {
		return usageError{err}
	}
	if len(args) == 0 {
		return s.list(c, client, rest)
	}
	standing, err := s.read(c, client, rest, args[0])
	if err != nil {
		return err
	}
	return s.out.print(c.stdout, standing, func(w io.Writer) error { return s.show(w, standing) })
}

func (s *jobStatus) list(c *command, client *api.Client, rest *rpc.RESTClient) error {
	stubs, _, err := client.Jobs().List((&api.QueryOptions{}).WithContext(c.ctx))
	if err != nil {
		return told(err)
	}
	workloads, err := rest.Workloads(c.ctx)
	if err != nil {
		return err
	}
	asks, err := rest.Asks(c.ctx, "", "")
	if err != nil {
		return err
	}
	managed, states := map[psg.JobID]bool{}, map[psg.JobID]map[psg.State]int{}
	for i := range workloads {
		managed[workloads[i].ID.JobID()] = managed[workloads[i].ID.JobID()] || workloads[i].Managed()
	}
	for _, status := range asks {
		if id := status.Ask.Workload.JobID(); !status.Over() {
			if states[id] == nil {
				states[id] = map[psg.State]int{}
			}
			states[id][status.State]++
		}
	}
	lines := []jobLine{}
	for _, stub := range stubs {
		id := psg.JobID{Namespace: stub.Namespace, Job: stub.ID}
		lines = append(lines, jobLine{stub.Namespace, stub.ID, stub.Type, stub.Priority, stub.Status, managed[id], states[id]})
	}
	return s.out.print(c.stdout, lines, func(w io.Writer) error {
		p := &printer{w: w}
		p.line("Namespace\tID\tType\tPriority\tStatus\tPSG")
		for _, line := range lines {
			p.line("%s\t%s\t%s\t%d\t%s\t%s", line.Namespace, line.Job, line.Type, line.Priority, line.Status, counted(line.Managed, line.Instances))
		}
		return p.err
	})
}

// counted is how many instances are in which state.
func counted(managed bool, states map[psg.State]int) string {
	if !managed {
		return "-"
	}
	return tally(states)
}

// read finds a job by its ID or the beginning of it, and what is known of it.
func (s *jobStatus) read(c *command, client *api.Client, rest *rpc.RESTClient, id string) (*jobStanding, error) {
	query := (&api.QueryOptions{}).WithContext(c.ctx)
	id, err := wholeJobID(client, query, id)
	if err != nil {
		return nil, err
	}
	out := &jobStanding{Workloads: []psg.Workload{}, Instances: []psg.AskStatus{}}
	if out.Job, _, err = client.Jobs().Info(id, query); err != nil {
		return nil, told(err)
	}
	evaluations, _, err := client.Jobs().Evaluations(id, query)
	if err != nil {
		return nil, told(err)
	}
	out.Blocked = shim.Blockages(evaluations)
	if out.Summary, _, err = client.Jobs().Summary(id, query); err != nil {
		return nil, told(err)
	}
	if out.Deployment, _, err = client.Jobs().LatestDeployment(id, query); err != nil {
		return nil, told(err)
	}
	if out.Allocations, _, err = client.Jobs().Allocations(id, false, query); err != nil {
		return nil, told(err)
	}
	workloads, err := rest.Workloads(c.ctx)
	if err != nil {
		return nil, err
	}
	of := psg.JobID{Namespace: s.nomad.namespace, Job: id}
	for _, w := range workloads {
		if w.ID.JobID() == of && w.Managed() {
			out.Workloads = append(out.Workloads, w)
		}
	}
	asks, err := rest.Asks(c.ctx, s.nomad.namespace, id)
	if err != nil {
		return nil, err
	}
	for _, status := range asks {
		if !status.Over() || status.Ask.Alloc != "" { // what was reserved and is used is of no interest
			out.Instances = append(out.Instances, status)
		}
	}
	return out, nil
}

// wholeJobID is the one job ID that begins so.
func wholeJobID(client *api.Client, query *api.QueryOptions, id string) (string, error) {
	found, _, err := client.Jobs().PrefixList(id)
	if err != nil {
		return "", told(err)
	}
	for _, stub := range found {
		if stub.ID == id {
			return id, nil
		}
	}
	switch len(found) {
	case 0:
		return "", errors.New("no job with ID or beginning of ID " + id)
	case 1:
		return found[0].ID, nil
	}
	ids := make([]string, len(found))
	for i, stub := range found {
		ids[i] = stub.ID
	}
	return "", errors.New("several jobs begin so: " + strings.Join(ids, ", "))
}

func (s *jobStatus) show(w io.Writer, j *jobStanding) error {
	p := &printer{w: w}
	job := j.Job
	p.line("ID\t%s", *job.ID)
	p.line("Name\t%s", *job.Name)
	p.line("Namespace\t%s", *job.Namespace)
	p.line("Type\t%s", *job.Type)
	p.line("Priority\t%d", *job.Priority)
	p.line("Datacenters\t%s", strings.Join(job.Datacenters, ","))
	p.line("Status\t%s", *job.Status)
	p.line("Version\t%d", *job.Version)
	p.line("Steered\t%t", shim.Steered(job))
	if d := j.Deployment; d != nil {
		p.line("Deployment\t%s: %s", d.Status, d.StatusDescription)
	}
	s.groups(p, j)
	if len(j.Blocked) > 0 {
		p.line("\nBlocked")
	}
	for _, b := range j.Blocked {
		p.line("%s\t%s: %s", b.Group, b.Reason, b.Text)
	}
	return errors.Join(p.err, s.instances(w, j))
}

// groups shows each group's counts, Nomad's first.
func (s *jobStatus) groups(p *printer, j *jobStanding) {
	p.line("\nGroup\tQueued\tStarting\tRunning\tFailed\tComplete\tLost\tPSG")
	for _, name := range sortedKeys(j.Summary.Summary) {
		counts := j.Summary.Summary[name]
		managed, states := false, map[psg.State]int{}
		for i := range j.Workloads {
			managed = managed || j.Workloads[i].ID.Group == name
		}
		for _, status := range j.Instances {
			if status.Ask.Workload.Group == name && !status.Over() {
				states[status.State]++
			}
		}
		p.line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s", name, counts.Queued, counts.Starting, counts.Running, counts.Failed, counts.Complete, counts.Lost, counted(managed, states))
	}
}

// instances shows each allocation, and what has asked without one.
func (s *jobStatus) instances(w io.Writer, j *jobStanding) error {
	p := &printer{w: w}
	known := map[psg.RequestID]psg.AskStatus{}
	for _, status := range j.Instances {
		known[status.Ask.ID] = status
	}
	p.line("\nAllocation\tNode\tGroup\tVersion\tDesired\tStatus\tPSG\tBecause")
	for _, a := range j.Allocations {
		status, asked := known[psg.RequestID(a.ID)]
		state := "-"
		if asked {
			state = string(status.State)
		}
		p.line("%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s", shortened(a.ID, s.verbose), shortened(a.NodeID, s.verbose), a.TaskGroup, a.JobVersion,
			a.DesiredStatus, a.ClientStatus, state, because(&status))
		delete(known, psg.RequestID(a.ID))
	}
	for _, id := range sortedKeys(known) {
		if status := known[id]; !status.Over() && status.Ask.Alloc == "" {
			p.line("%s\t%s\t%s\t\t\t\t%s\t%s", "-", shortened(string(nodeOf(&status)), s.verbose), status.Ask.Workload.Group, status.State, because(&status))
		}
	}
	if s.verbose {
		for i := range j.Instances {
			if !j.Instances[i].Over() {
				p.line("")
				if p.err == nil {
					p.err = explain(w, &j.Instances[i])
				}
			}
		}
	}
	return p.err
}
