package shim

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// open reads a job that PSG manages, or else passes the request on.
func (p *Proxy) open(w http.ResponseWriter, r *http.Request) *registration {
	body, ok := readBody(w, r)
	if !ok {
		return nil
	}
	reg, err := readRegistration(body, r)
	switch {
	case err != nil:
		http.Error(w, "PSG cannot read the job: "+err.Error(), http.StatusBadRequest)
		return nil
	case reg == nil || p.foreign(r, reg.draft.job, reg.namespace):
		p.forward(w, r, body)
		return nil
	}
	current, err := p.fetchJob(r, text(reg.draft.job.ID), reg.namespace)
	if err != nil {
		http.Error(w, "psg: "+err.Error(), http.StatusBadGateway)
		return nil
	}
	reg.meet(current)
	return reg
}

// register judges a job, plans it unless it is as it was, and sends it on,
// steered.
func (p *Proxy) register(w http.ResponseWriter, r *http.Request, _ string) {
	reg := p.open(w, r)
	if reg == nil {
		return
	}
	kept := reg.unchanged()
	request := psg.RequestID("")
	var verdicts []psg.Verdict
	var err error
	if len(kept) == len(reg.workloads) {
		verdicts, err = p.planner.Judge(r.Context(), reg.workloads)
	} else {
		request = psg.RequestID("plan/" + rand.Text())
		verdicts, err = p.planner.Plan(r.Context(), request, reg.workloads)
	}
	if outside(verdicts) {
		p.asSent(w, r, reg)
		return
	}
	if !p.admitted(w, reg, verdicts, err) {
		return
	}
	job := reg.planned(kept, verdicts)
	if err == nil && request != "" {
		p.config.Log.Info("registration planned", "namespace", reg.namespace, "job", text(job.ID), "request", request)
	}
	if !p.send(w, r, reg, job) && request != "" && err == nil {
		p.abandon(r.Context(), request, reg.workloads)
	}
}

// planned is the job with what the verdicts say: hints, and the hold for what
// must wait. Groups that are as they were keep what they have.
func (reg *registration) planned(kept map[string]bool, verdicts []psg.Verdict) *api.Job {
	hints, hold := map[string]psg.Hint{}, map[string]bool{}
	for _, v := range verdicts {
		if kept[v.Workload.Group] {
			continue
		}
		hints[v.Workload.Group] = v.Hint
		if v.Hold || reg.held && len(v.Waiting) > 0 {
			hold[v.Workload.Group] = true
			hints[v.Workload.Group] = nil
		}
		if len(v.Waiting) > 0 {
			reg.warnings = append(reg.warnings, fmt.Sprintf("group %q: %d instances wait for room: %s", v.Workload.Group, len(v.Waiting), v.Waiting[0].Summary))
		}
	}
	job := Steer(reg.asked, hints)
	if reg.current != nil {
		job = carry(reg.current, job, kept)
	}
	return withHold(job, hold)
}

// admitted answers a request that is refused, and one that nobody can judge
// where that means no.
func (p *Proxy) admitted(w http.ResponseWriter, reg *registration, verdicts []psg.Verdict, err error) bool {
	if err != nil {
		p.config.Log.Warn("job not judged", "job", text(reg.asked.ID), "error", err)
		if p.config.FailClosed {
			http.Error(w, "PSG cannot judge the job: "+err.Error(), http.StatusServiceUnavailable)
			return false
		}
		reg.warnings = append(reg.warnings, "PSG could not be asked, its gates wait until it answers: "+err.Error())
	}
	if why := rejection(verdicts); why != "" {
		http.Error(w, why, http.StatusBadRequest)
		return false
	}
	return true
}

// plan shows what a registration would do. The groups' steering is taken as it
// stands, so that the difference shows the user's changes alone.
func (p *Proxy) plan(w http.ResponseWriter, r *http.Request, _ string) {
	reg := p.open(w, r)
	if reg == nil {
		return
	}
	verdicts, err := p.planner.Judge(r.Context(), reg.workloads)
	if outside(verdicts) {
		p.asSent(w, r, reg)
		return
	}
	if !p.admitted(w, reg, verdicts, err) {
		return
	}
	job := reg.asked
	if reg.current != nil {
		job = carry(reg.current, job, reg.everyGroup())
	}
	p.send(w, r, reg, job)
}

// validate adds what policy says to what Nomad does.
func (p *Proxy) validate(w http.ResponseWriter, r *http.Request) {
	reg := p.open(w, r)
	if reg == nil {
		return
	}
	verdicts, err := p.planner.Judge(r.Context(), reg.workloads)
	if outside(verdicts) {
		p.asSent(w, r, reg)
		return
	}
	if why := rejection(verdicts); err == nil && why != "" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.JobValidateResponse{
			DriverConfigValidated: true, ValidationErrors: strings.Split(strings.TrimSpace(why), "\n")[1:], Error: why,
		})
		return
	}
	if p.admitted(w, reg, verdicts, err) {
		p.send(w, r, reg, reg.asked)
	}
}

// scale judges a job with its new count. Nomad then scales it as it was asked
// to, and PSG steers what comes out elsewhere.
func (p *Proxy) scale(w http.ResponseWriter, r *http.Request, id string) {
	p.judged(w, r, id, func(body []byte, job *api.Job) (*api.Job, error) {
		var request api.ScalingRequest
		if json.Unmarshal(body, &request) != nil || request.Count == nil {
			return job, nil // Nomad says what is wrong
		}
		for _, g := range job.TaskGroups {
			if text(g.Name) == request.Target["Group"] {
				g.Count = new(int(*request.Count))
			}
		}
		return job, nil
	})
}

// revert judges the version that a job goes back to.
func (p *Proxy) revert(w http.ResponseWriter, r *http.Request, id string) {
	p.judged(w, r, id, func(body []byte, job *api.Job) (*api.Job, error) {
		var request api.JobRevertRequest
		if json.Unmarshal(body, &request) != nil {
			return job, nil
		}
		var old struct{ Versions []*api.Job }
		found, err := p.ask(r, "/v1/job/"+url.PathEscape(id)+"/versions", namespaceIn(r), &old)
		if !found || err != nil {
			return job, err
		}
		for _, version := range old.Versions {
			if version.Version != nil && *version.Version == request.JobVersion {
				return version, nil
			}
		}
		return job, nil
	})
}

// launch judges a job of which a child is to run.
func (p *Proxy) launch(w http.ResponseWriter, r *http.Request, id string) {
	p.judged(w, r, id, func(_ []byte, job *api.Job) (*api.Job, error) { return job, nil })
}

// judged asks policy about the form of a job that a request leads to, and
// passes the request on if it may.
func (p *Proxy) judged(w http.ResponseWriter, r *http.Request, id string, becomes func([]byte, *api.Job) (*api.Job, error)) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	job, err := p.fetchJob(r, id, namespaceIn(r))
	if err == nil && job != nil {
		job, err = becomes(body, job)
	}
	if err != nil {
		http.Error(w, "psg: "+err.Error(), http.StatusBadGateway)
		return
	}
	if job != nil && gated(job) && !p.foreign(r, job, namespaceIn(r)) {
		t, err := TranslateJob(job)
		var verdicts []psg.Verdict
		if err == nil {
			verdicts, err = p.planner.Judge(r.Context(), t.Workloads)
		}
		if !p.admitted(w, &registration{asked: job}, verdicts, err) {
			return
		}
	}
	p.forward(w, r, body)
}
