package shim

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// open reads a registration of a job that PSG is to place, to be freed once it is
// answered, or else answers: what is none of PSG's goes on as it came, whatever is in
// it.
func (p *Proxy) open(w http.ResponseWriter, r *http.Request) (opened *registration) {
	body, free := p.readBody(w, r)
	if free == nil {
		return nil
	}
	defer func() {
		if opened == nil {
			free()
		}
	}()
	seen := outlined(body)
	if !seen.managed() || p.abroad(r, &seen) {
		p.forward(w, r, body)
		return nil
	}
	namespace := seen.namespace(r.URL.Query())
	places, unsure := p.scope.holds(r.Context(), namespace)
	if unsure == nil && !places {
		p.relay(w, r, body, []string{seen.asSent(namespace, nil)})
		return nil
	}
	current, err := p.fetchJob(r, text(seen.Job.ID), namespace)
	if err != nil {
		http.Error(w, "psg: "+err.Error(), http.StatusBadGateway)
		return nil
	}
	if errors.Is(unsure, psg.ErrUnavailable) && !p.known(current) {
		p.unjudged(w, r, body, seen.asSent(namespace, unsure), unsure)
		return nil
	}
	reg, err := readRegistration(body, namespace)
	if err == nil {
		reg.sent, reg.outside, reg.free = body, seen.asSent(namespace, nil), free
		err = reg.meet(current)
	}
	if err != nil {
		http.Error(w, "PSG cannot read the job: "+err.Error(), http.StatusBadRequest)
		return nil
	}
	return reg
}

// known reports whether a job, as Nomad has it, is one that PSG places: it is
// steered.
func (p *Proxy) known(current json.RawMessage) bool {
	job := new(api.Job)
	return current != nil && json.Unmarshal(current, job) == nil && Steered(job)
}

// unjudged answers a registration of which it is not known whether it is PSG's: it
// is refused, or goes on as it came.
func (p *Proxy) unjudged(w http.ResponseWriter, r *http.Request, body []byte, warning string, why error) {
	p.config.Log.Warn("job not judged", "path", r.URL.Path, "error", why)
	if p.config.FailClosed {
		http.Error(w, "PSG cannot judge the job: "+why.Error(), http.StatusServiceUnavailable)
		return
	}
	p.relay(w, r, body, []string{warning})
}

// register judges a job, plans it unless it is as it was, and sends it on,
// steered.
func (p *Proxy) register(w http.ResponseWriter, r *http.Request, _ string) {
	reg := p.open(w, r)
	if reg == nil {
		return
	}
	defer reg.free()
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
	if p.outside(verdicts) {
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
		if v.Outside {
			hold[v.Workload.Group] = reg.held
			reg.warnings = append(reg.warnings, fmt.Sprintf("the controllers place no jobs in namespace %q, which is one of the proxy's -namespaces", reg.namespace))
		}
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
	defer reg.free()
	verdicts, err := p.planner.Judge(r.Context(), reg.workloads)
	if p.outside(verdicts) {
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
	defer reg.free()
	verdicts, err := p.planner.Judge(r.Context(), reg.workloads)
	if p.outside(verdicts) {
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
