package shim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/hashicorp/nomad/api"
)

// outline is as much of a request as tells whether PSG has a say in it. It is
// read as Nomad reads requests: the first JSON value, whatever else is in it, so
// that nothing passes for another's job that Nomad would take for one of PSG's.
type outline struct {
	Region, Namespace string
	Job               *outlinedJob
}

type outlinedJob struct {
	ID, Region, Namespace *string
	Multiregion           *struct{}
	Constraints           outlinedConstraints
	TaskGroups            outlinedGroups
}

// outlined reads a request; what cannot be read, Nomad refuses.
func outlined(body []byte) (o outline) {
	if first(body, &o) != nil {
		return outline{}
	}
	return o
}

// first reads the first JSON value of a request, as Nomad does: what follows it
// hides nothing.
func first(body []byte, into any) error { return json.NewDecoder(bytes.NewReader(body)).Decode(into) }

// outlinedOf reads a job that Nomad has sent.
func outlinedOf(job json.RawMessage) (o outline, err error) { return o, json.Unmarshal(job, &o.Job) }

// managed reports whether PSG places any group of the job.
func (o *outline) managed() bool { return o.Job != nil && o.Job.ID != nil && o.Job.marks() != marks{} }

// held reports whether any of the job is held.
func (o *outline) held() bool { return o.Job != nil && o.Job.marks().held }

// namespace is the one that the request is for, in the order Nomad asks.
func (o *outline) namespace(query url.Values) string {
	own := ""
	if o.Job != nil {
		own = text(o.Job.Namespace)
	}
	return cmp.Or(query.Get("namespace"), o.Namespace, own, api.DefaultNamespace)
}

// region is the one that the request is for, "" for the one of the Nomad that is
// asked, in the order Nomad asks: where there is no job the query goes before the
// body. A job of several is for none of them.
func (o *outline) region(query url.Values) string {
	if o.Job == nil {
		return cmp.Or(query.Get("region"), o.Region)
	}
	return cmp.Or(o.Region, query.Get("region"), text(o.Job.Region))
}

// asSent is what is told of a job that goes on as it came: nothing is placed in
// its namespace or, with an error, it is not known whether anything is.
func (o *outline) asSent(namespace string, err error) string {
	held := o.held()
	switch {
	case err != nil && held:
		return fmt.Sprintf("it is not known whether jobs are placed in namespace %q: this one is as it was sent, held until they are (%v)", namespace, err)
	case err != nil:
		return fmt.Sprintf("it is not known whether jobs are placed in namespace %q: this one is as it was sent, and its gates wait where they are; register it again once PSG answers (%v)", namespace, err)
	case held:
		return fmt.Sprintf("no jobs are placed in namespace %q: this one is as it was sent, and nobody takes off its hold, the constraint on %s: take it out for Nomad to place the job", namespace, holdAttribute)
	}
	return fmt.Sprintf("no jobs are placed in namespace %q: this one is as it was sent, and Nomad places it alone", namespace)
}
