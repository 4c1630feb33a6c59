package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// registration is one job that somebody sends through the proxy.
type registration struct {
	raw       map[string]any // the whole request
	sent      []byte         // the same, as it came
	free      func()         // what is counted of it
	outside   string         // what is told where nothing is placed in its namespace
	key       string         // of the job in it
	draft     *draft         // the job as it is sent on
	asked     *api.Job       // the job as the user means it, bare of PSG's steering and of the hold
	held      bool           // the user wants it held until all of it has room
	namespace string
	current   *api.Job // as Nomad has it, nil for a new or a stopped job
	workloads []psg.Workload
	warnings  []string
}

// readRegistration reads a request for a job that PSG is to place, in a namespace.
func readRegistration(body []byte, namespace string) (*registration, error) {
	if _, err := parse(body); err != nil {
		return nil, err
	}
	reg := &registration{namespace: namespace}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&reg.raw); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	for key := range reg.raw {
		if strings.EqualFold(key, "Job") {
			reg.key = key
		}
	}
	job, err := json.Marshal(reg.raw[reg.key])
	if err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	if reg.draft, err = newDraft(job); err != nil {
		return nil, err
	}
	if _, err := TranslateJob(reg.draft.job); err != nil { // nothing below meets a null
		return nil, err
	}
	reg.asked, reg.warnings = equip(unheld(Strip(reg.draft.job)))
	reg.held = isHeld(reg.draft.job)
	return reg, reg.translate()
}

func isHeld(job *api.Job) bool { return !same(job, unheld(job)) }

func (reg *registration) translate() error {
	job := *reg.asked
	job.Namespace = &reg.namespace
	t, err := TranslateJob(&job)
	reg.workloads = t.Workloads
	return err
}

// meet takes what Nomad has of the job, if anything.
func (reg *registration) meet(stored json.RawMessage) error {
	if stored == nil {
		return nil
	}
	current := new(api.Job)
	if err := json.Unmarshal(stored, current); err != nil {
		return fmt.Errorf("the job as Nomad has it: %w", err)
	}
	if current.Stop != nil && *current.Stop {
		return nil
	}
	reg.current = current
	preserve := false
	for key, value := range reg.raw {
		preserve = preserve || strings.EqualFold(key, "PreserveCounts") && value == true
	}
	if !preserve {
		return nil
	}
	for i := range reg.workloads {
		for _, g := range current.TaskGroups {
			if text(g.Name) == reg.workloads[i].ID.Group && g.Count != nil {
				reg.workloads[i].Count = *g.Count
			}
		}
	}
	return nil
}

// unchanged are the groups whose place need not be planned: what they ask of it
// is as it was.
func (reg *registration) unchanged() map[string]bool {
	kept := map[string]bool{}
	if reg.current == nil {
		return kept
	}
	before, err := TranslateJob(unheld(reg.current))
	if err != nil {
		return kept
	}
	for _, w := range reg.workloads {
		for _, was := range before.Workloads {
			was.Version, was.ID.Namespace = w.Version, w.ID.Namespace
			if was.Region == "" || w.Region == api.GlobalRegion {
				was.Region = w.Region
			}
			if reflect.DeepEqual(was, w) {
				kept[w.ID.Group] = true
			}
		}
	}
	return kept
}

// everyGroup names all groups.
func (reg *registration) everyGroup() map[string]bool {
	all := map[string]bool{}
	for _, w := range reg.workloads {
		all[w.ID.Group] = true
	}
	return all
}

// body is the request as it is sent on, with this form of the job in it.
func (reg *registration) body(job *api.Job) ([]byte, error) {
	if err := reg.draft.set(job); err != nil {
		return nil, err
	}
	out := maps.Clone(reg.raw)
	out[reg.key] = reg.draft.raw
	return json.Marshal(out)
}

// fetchJob reads a job from Nomad with the caller's rights, as JSON; nil without
// an error when there is none, or the caller may not know.
func (p *Proxy) fetchJob(r *http.Request, id, namespace string) (json.RawMessage, error) {
	var answer json.RawMessage
	found, err := p.ask(r, jobPath(id), namespace, &answer)
	if !found || err != nil {
		return nil, err
	}
	job, err := jobIn(id, answer)
	if errors.Is(err, psg.ErrUnknown) {
		return nil, nil
	}
	return job, err
}

// ask reads from Nomad as the caller would.
func (p *Proxy) ask(r *http.Request, path, namespace string, into any) (found bool, err error) {
	target := *p.config.Nomad
	query := url.Values{"namespace": {namespace}}
	if region := r.URL.Query().Get("region"); region != "" {
		query.Set("region", region)
	}
	full := strings.TrimSuffix(target.String(), "/") + path + "?" + query.Encode()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, full, nil)
	if err != nil {
		return false, err
	}
	for _, name := range []string{"X-Nomad-Token", "Authorization"} {
		if value := r.Header.Get(name); value != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := (&http.Client{Transport: p.config.Transport}).Do(request)
	if err != nil {
		return false, fmt.Errorf("ask nomad: %w", err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusForbidden:
		return false, nil
	default:
		return false, fmt.Errorf("ask nomad: read %s: %s", path, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return false, fmt.Errorf("ask nomad: read %s: %w", path, err)
	}
	return true, nil
}

// outside reports whether the controllers place nothing in the workloads'
// namespace. Where the operator lists namespaces that list alone is followed: a
// job is registered in the same form whether or not a controller answers.
func (p *Proxy) outside(verdicts []psg.Verdict) bool {
	return len(p.config.Namespaces) == 0 && slices.ContainsFunc(verdicts, func(v psg.Verdict) bool { return v.Outside })
}

// rejection is what policy has against any of the workloads, as Nomad prints
// such lists; empty when there is nothing.
func rejection(verdicts []psg.Verdict) string {
	var lines []string
	for _, v := range verdicts {
		for _, reason := range v.Rejected {
			lines = append(lines, fmt.Sprintf("\t* group %q: %s: %s", v.Workload.Group, reason.Source, reason.Text))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	noun := "errors"
	if len(lines) == 1 {
		noun = "error"
	}
	return fmt.Sprintf("PSG refuses the job: %d %s occurred:\n%s\n", len(lines), noun, strings.Join(lines, "\n"))
}

// abandon gives back what was planned; it outlives the caller's request.
func (p *Proxy) abandon(ctx context.Context, request psg.RequestID, workloads []psg.Workload) {
	ids := make([]psg.WorkloadID, len(workloads))
	for i, w := range workloads {
		ids[i] = w.ID
	}
	if err := p.planner.Abandon(context.WithoutCancel(ctx), request, ids); err != nil {
		p.config.Log.Warn("planned room not given back: it expires", "request", request, "error", err)
	}
}
