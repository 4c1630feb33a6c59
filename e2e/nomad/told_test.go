package nomad_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// ours is what the controller has of every instance that is not over.
func (r *region) ours() string {
	asks, err := r.rest.Asks(context.Background(), "", "")
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, a := range asks {
		if !a.Over() {
			fmt.Fprintf(&b, "%s of %s: %s", a.Ask.ID, a.Ask.Workload, a.State)
			if p := a.Placement; p != nil {
				fmt.Fprintf(&b, " on %.8s since %s, with %v", p.Node, p.Since.Format(time.TimeOnly), p.Request)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// told is what Nomad has of every job, for who must know why a test failed:
// deployments, evaluations, and allocations with what befell their
// tasks.
func (r *region) told() string {
	var b strings.Builder
	nodes, _, err := r.client.Nodes().List(nil)
	if err != nil {
		return err.Error()
	}
	for _, n := range nodes {
		fmt.Fprintf(&b, "%s %.8s %s %s\n", n.Name, n.ID, n.Status, n.SchedulingEligibility)
	}
	jobs, _, err := r.client.Jobs().List(&api.QueryOptions{Namespace: api.AllNamespacesNamespace})
	if err != nil {
		return err.Error()
	}
	for _, job := range jobs {
		in := &api.QueryOptions{Namespace: job.Namespace}
		fmt.Fprintf(&b, "job %s %s %s\n", job.ID, job.Status, job.StatusDescription)
		deployments, _, _ := r.client.Jobs().Deployments(job.ID, true, in)
		for _, d := range deployments {
			fmt.Fprintf(&b, "  deployment %.8s of version %d %s: %s\n", d.ID, d.JobVersion, d.Status, d.StatusDescription)
			for group, is := range d.TaskGroups {
				fmt.Fprintf(&b, "    %s: %d wanted, %d placed, %d healthy, %d unhealthy, canaries %v of %d\n", group,
					is.DesiredTotal, is.PlacedAllocs, is.HealthyAllocs, is.UnhealthyAllocs, is.PlacedCanaries, is.DesiredCanaries)
			}
		}
		evaluations, _, _ := r.client.Jobs().Evaluations(job.ID, in)
		for _, e := range evaluations {
			fmt.Fprintf(&b, "  evaluation %.8s by %s %s: %s %v\n", e.ID, e.TriggeredBy, e.Status, e.StatusDescription, e.FailedTGAllocs)
		}
		allocs, _, _ := r.client.Jobs().Allocations(job.ID, true, in)
		for _, a := range allocs {
			fmt.Fprintf(&b, "  alloc %.8s %s of version %d on %s wanted %s is %s: %s", a.ID, a.Name, a.JobVersion, a.NodeName, a.DesiredStatus, a.ClientStatus, a.ClientDescription)
			if in := a.DeploymentStatus; in != nil && in.Healthy != nil {
				fmt.Fprintf(&b, "; healthy %t at %s", *in.Healthy, in.Timestamp.Format(time.TimeOnly))
			}
			fmt.Fprintf(&b, "; created at %s, last written at %s\n", time.Unix(0, a.CreateTime).Format(time.TimeOnly), time.Unix(0, a.ModifyTime).Format(time.TimeOnly))
			for name, task := range a.TaskStates {
				for _, e := range task.Events {
					fmt.Fprintf(&b, "    %s %s %s: %s %s\n", time.Unix(0, e.Time).Format(time.TimeOnly), name, task.State, e.Type, e.DisplayMessage)
				}
			}
		}
	}
	return b.String()
}
