package shim

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// judgedWrite is a write to a job that Nomad has, without the job in it.
type judgedWrite struct {
	*http.Request
	body          []byte
	id, namespace string
}

// becomes is the form of a job that a write to it leads to.
type becomes func(judgedWrite, *api.Job) (*api.Job, error)

// scale judges a job with its new count. Nomad then scales it as it was asked
// to, and PSG steers what comes out elsewhere.
func (p *Proxy) scale(w http.ResponseWriter, r *http.Request, id string) {
	p.judged(w, r, id, func([]byte) outline { return outline{} }, scaled)
}

func scaled(w judgedWrite, job *api.Job) (*api.Job, error) {
	var request struct {
		Count  *int64
		Target map[string]string
	}
	if first(w.body, &request) != nil || request.Count == nil {
		return job, nil // Nomad says what is wrong
	}
	for _, g := range job.TaskGroups {
		if g != nil && text(g.Name) == request.Target["Group"] {
			g.Count = new(int(*request.Count))
		}
	}
	return job, nil
}

// revert judges the version that a job goes back to.
func (p *Proxy) revert(w http.ResponseWriter, r *http.Request, id string) {
	p.judged(w, r, id, outlined, p.reverted)
}

func (p *Proxy) reverted(w judgedWrite, job *api.Job) (*api.Job, error) {
	var request struct{ JobVersion uint64 }
	if first(w.body, &request) != nil {
		return job, nil
	}
	var old struct{ Versions []*api.Job }
	found, err := p.ask(w.Request, "/v1/job/"+url.PathEscape(w.id)+"/versions", w.namespace, &old)
	if !found || err != nil {
		return job, err
	}
	for _, version := range old.Versions {
		if version != nil && version.Version != nil && *version.Version == request.JobVersion {
			return version, nil
		}
	}
	return job, nil
}

// dispatch judges a job with what its child is to have beyond it.
func (p *Proxy) dispatch(w http.ResponseWriter, r *http.Request, id string) {
	p.judged(w, r, id, outlined, dispatched)
}

func dispatched(w judgedWrite, job *api.Job) (*api.Job, error) {
	var request struct {
		Meta     map[string]string
		Priority int
	}
	if first(w.body, &request) != nil {
		return job, nil
	}
	job.Meta = overlay(job.Meta, request.Meta)
	if request.Priority != 0 {
		job.Priority = &request.Priority
	}
	return job, nil
}

// force judges a periodic job of which a child is to run now. Nomad reads no body.
func (p *Proxy) force(w http.ResponseWriter, r *http.Request, id string) {
	p.judged(w, r, id, func([]byte) outline { return outline{} }, func(_ judgedWrite, job *api.Job) (*api.Job, error) { return job, nil })
}

// judged asks policy about the form of a job that a write leads to, and passes the
// write on if it may. where reads from its body what Nomad takes from there of
// the region and the namespace that it is for.
func (p *Proxy) judged(w http.ResponseWriter, r *http.Request, id string, where func([]byte) outline, form becomes) {
	body, free := p.readBody(w, r)
	if free == nil {
		return
	}
	defer free()
	seen := where(body)
	seen.Job = nil
	one := judgedWrite{r, body, id, seen.namespace(r.URL.Query())}
	places, unsure := p.scope.holds(r.Context(), one.namespace)
	if unsure == nil && !places || p.abroad(r, &seen) {
		p.forward(w, r, body)
		return
	}
	job, err := p.become(one, form)
	switch {
	case err != nil && !errors.Is(err, psg.ErrInvalid):
		http.Error(w, "psg: "+err.Error(), http.StatusBadGateway)
		return
	case err == nil && (job == nil || !gated(job) || job.Multiregion != nil):
		p.forward(w, r, body)
		return
	}
	var verdicts []psg.Verdict
	if err == nil {
		verdicts, err = p.judge(r, job)
	}
	if p.admitted(w, &registration{asked: &api.Job{ID: &id}}, verdicts, err) {
		p.forward(w, r, body)
	}
}

// become is the job that a write leads to, nil for none that PSG has a say in.
// psg.ErrInvalid means that it is PSG's and cannot be read.
func (p *Proxy) become(w judgedWrite, form becomes) (*api.Job, error) {
	stored, err := p.fetchJob(w.Request, w.id, w.namespace)
	if err != nil || stored == nil {
		return nil, err
	}
	job := new(api.Job)
	if err := json.Unmarshal(stored, job); err != nil {
		if seen, bad := outlinedOf(stored); bad != nil || !seen.managed() {
			return nil, nil
		}
		return nil, Problems{{Text: err.Error()}}
	}
	return form(w, job)
}

func (p *Proxy) judge(r *http.Request, job *api.Job) ([]psg.Verdict, error) {
	t, err := TranslateJob(job)
	if err != nil {
		return nil, err
	}
	return p.planner.Judge(r.Context(), t.Workloads)
}
