package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/rpc"
)

// planRequest is what the proxy asks a controller about one job:
//
//	POST /v1/register/judge     {workloads} -> []psg.Verdict
//	POST /v1/register/plan      {request, workloads} -> []psg.Verdict
//	POST /v1/register/preview   {workloads} -> []psg.Verdict
//	POST /v1/register/abandon   {request, ids} -> null
//	GET  /v1/register/namespaces  -> registered, which any controller answers
type planRequest struct {
	Request   psg.RequestID    `json:"request,omitempty"`
	Workloads []psg.Workload   `json:"workloads,omitempty"`
	IDs       []psg.WorkloadID `json:"ids,omitempty"`
}

// registered is where a controller places jobs: in some namespaces, or in all if
// there are none.
type registered struct {
	Namespaces []string `json:"namespaces"`
}

const (
	// maxPlanRequest bounds one question, in bytes.
	maxPlanRequest = 64 << 20
	// placesWithin is how long one controller may take to say where it places jobs.
	placesWithin = 2 * time.Second
)

// outside says, of workloads of a namespace that is none of these, that nothing
// is placed there; nothing of others, nor when no namespaces are given.
func outside(namespaces []string, workloads []psg.Workload) (verdicts []psg.Verdict) {
	stranger := func(w psg.Workload) bool { return !slices.Contains(namespaces, w.ID.Namespace) }
	if len(namespaces) == 0 || !slices.ContainsFunc(workloads, stranger) {
		return nil
	}
	for i := range workloads {
		verdicts = append(verdicts, psg.Verdict{Workload: workloads[i].ID, Outside: true})
	}
	return verdicts
}

// withRegistrations adds what the proxy asks to the REST face of a controller that
// places jobs in some namespaces, or in all if none are given.
func withRegistrations(rest http.Handler, decider *controller.Controller, namespaces []string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("GET /v1/blocked", func(w http.ResponseWriter, r *http.Request) {
		of := psg.JobID{Namespace: cmp.Or(r.URL.Query().Get("namespace"), "default"), Job: r.URL.Query().Get("job")}
		found, err := decider.Blockages(of)
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		rpc.WriteJSON(w, http.StatusOK, found)
	})
	mux.Handle("POST /v1/node/{id}/rebalance", jsonOnly(rebalance(decider)))
	mux.Handle("POST /v1/preempt", jsonOnly(preempt(decider)))
	mux.HandleFunc("GET /v1/register/namespaces", func(w http.ResponseWriter, _ *http.Request) {
		rpc.WriteJSON(w, http.StatusOK, registered{namespaces})
	})
	post := func(path string, answer func(context.Context, planRequest) (any, error)) {
		mux.Handle("POST /v1/register/"+path, jsonOnly(func(w http.ResponseWriter, r *http.Request) {
			var request planRequest
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPlanRequest)).Decode(&request); err != nil {
				rpc.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
				return
			}
			if verdicts := outside(namespaces, request.Workloads); verdicts != nil {
				rpc.WriteJSON(w, http.StatusOK, verdicts)
				return
			}
			value, err := answer(r.Context(), request)
			if err != nil {
				rpc.WriteError(w, err)
				return
			}
			rpc.WriteJSON(w, http.StatusOK, value)
		}))
	}
	post("judge", func(ctx context.Context, r planRequest) (any, error) { return decider.Judge(ctx, r.Workloads) })
	post("preview", func(ctx context.Context, r planRequest) (any, error) { return decider.Preview(ctx, r.Workloads) })
	post("plan", func(ctx context.Context, r planRequest) (any, error) {
		return decider.Plan(ctx, r.Request, r.Workloads)
	})
	post("abandon", func(ctx context.Context, r planRequest) (any, error) {
		return nil, decider.Abandon(ctx, r.Request, r.IDs)
	})
	return mux
}

// jsonOnly refuses what does not say that it is JSON, which a page of another
// site in somebody's browser cannot say unasked: nothing else tells it from the
// operator, for loopback alone is trusted.
func jsonOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			rpc.WriteJSON(w, http.StatusUnsupportedMediaType, map[string]string{"error": "Content-Type is not application/json"})
			return
		}
		next(w, r)
	})
}

// blockages asks a controller what Nomad's blocked evaluations of a job wait for.
func blockages(ctx context.Context, at address, namespace, job string) (found []psg.Blockage, err error) {
	query := url.Values{"namespace": {namespace}, "job": {job}}.Encode()
	return found, at.ask(ctx, askWithin, "/v1/blocked?"+query, nil, &found)
}

// planClient asks the controllers, the one that answered last first. It
// implements shim.Planner.
type planClient struct {
	http *http.Client

	mu        sync.Mutex
	addresses []string // the one to ask first, first
}

func newPlanClient(addresses []string) *planClient {
	trimmed := make([]string, len(addresses))
	for i, address := range addresses {
		trimmed[i] = strings.TrimSuffix(strings.TrimSpace(address), "/")
	}
	return &planClient{http: &http.Client{Timeout: 10 * time.Second, Transport: tokenBearer{}}, addresses: trimmed}
}

// Judge asks policy only.
func (c *planClient) Judge(ctx context.Context, workloads []psg.Workload) ([]psg.Verdict, error) {
	return c.verdicts(ctx, "judge", planRequest{Workloads: workloads})
}

// Preview says what Plan would, and reserves nothing.
func (c *planClient) Preview(ctx context.Context, workloads []psg.Workload) ([]psg.Verdict, error) {
	return c.verdicts(ctx, "preview", planRequest{Workloads: workloads})
}

// Plan also reserves room.
func (c *planClient) Plan(ctx context.Context, request psg.RequestID, workloads []psg.Workload) ([]psg.Verdict, error) {
	return c.verdicts(ctx, "plan", planRequest{Request: request, Workloads: workloads})
}

// verdicts has workloads judged, each of them: none is taken for allowed because
// what answers is no controller.
func (c *planClient) verdicts(ctx context.Context, path string, request planRequest) (verdicts []psg.Verdict, err error) {
	if err := c.post(ctx, path, request, &verdicts); err != nil {
		return nil, err
	}
	for _, w := range request.Workloads {
		if !slices.ContainsFunc(verdicts, func(v psg.Verdict) bool { return v.Workload == w.ID }) {
			return nil, fmt.Errorf("ask controller: no verdict on workload %s among its %d", w.ID, len(verdicts))
		}
	}
	return verdicts, nil
}

// Abandon gives it back.
func (c *planClient) Abandon(ctx context.Context, request psg.RequestID, ids []psg.WorkloadID) error {
	return c.post(ctx, "abandon", planRequest{Request: request, IDs: ids}, nil)
}

// Namespaces are those in which the controllers place jobs, none for all.
func (c *planClient) Namespaces(ctx context.Context) ([]string, error) {
	var places registered
	err := c.first(func(address string) error {
		bounded, cancel := context.WithTimeout(ctx, placesWithin)
		defer cancel()
		return exchange(bounded, c.http, http.MethodGet, address+"/v1/register/namespaces", nil, &places)
	})
	return places.Namespaces, err
}

// outside reports whether the controllers place no jobs in a namespace.
func (c *planClient) outside(ctx context.Context, namespace string) (bool, error) {
	places, err := c.Namespaces(ctx)
	return err == nil && len(places) > 0 && !slices.Contains(places, namespace), err
}

// post has one controller after another asked until one leads.
func (c *planClient) post(ctx context.Context, path string, request planRequest, into any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("ask controller: %w", err)
	}
	return c.first(func(address string) error { return c.postTo(ctx, address+"/v1/register/"+path, body, into) })
}

// first asks one controller after another until one answers.
func (c *planClient) first(ask func(address string) error) error {
	c.mu.Lock()
	addresses := append([]string(nil), c.addresses...)
	c.mu.Unlock()
	var errs []error
	for _, address := range addresses {
		err := ask(address)
		if !errors.Is(err, psg.ErrUnavailable) {
			c.prefer(address)
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *planClient) prefer(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, one := range c.addresses {
		if one == address {
			c.addresses[0], c.addresses[i] = c.addresses[i], c.addresses[0]
			return
		}
	}
}

// postTo returns psg.ErrUnavailable for a controller that is not there or does
// not lead: another may.
func (c *planClient) postTo(ctx context.Context, url string, body []byte, into any) error {
	return exchange(ctx, c.http, http.MethodPost, url, body, into)
}

// exchange asks a controller's REST face for JSON, with psg.ErrUnavailable as
// postTo, and psg.ErrBusy for one that has too much to do.
func exchange(ctx context.Context, client *http.Client, method, url string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask controller: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask controller: %w (%w)", err, psg.ErrUnavailable)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		if into == nil {
			return nil
		}
		if err := json.NewDecoder(response.Body).Decode(into); err != nil {
			return fmt.Errorf("ask controller: read answer: %w", err)
		}
		return nil
	}
	var told struct {
		Error string `json:"error"`
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if json.Unmarshal(text, &told) != nil || told.Error == "" {
		told.Error = response.Status
	}
	switch response.StatusCode {
	case http.StatusServiceUnavailable:
		return fmt.Errorf("%s (%w)", told.Error, psg.ErrUnavailable)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%s (%w)", told.Error, psg.ErrBusy)
	}
	return errors.New(told.Error)
}
