package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/psgrid/psg"
)

// RESTClient reads the JSON face of controllers: each knows everything, the
// leader a moment sooner.
type RESTClient struct {
	addresses []string // http://host:port
	http      *http.Client
}

// NewRESTClient returns a client for an address such as http://127.0.0.1:4681,
// or several, separated by commas: the first that answers, and is able to, is
// asked.
func NewRESTClient(list string) (*RESTClient, error) {
	addresses := strings.Split(list, ",")
	for i, address := range addresses {
		address = strings.TrimSpace(address)
		parsed, err := url.Parse(address)
		if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
			return nil, fmt.Errorf("address %q is not http://host:port or https://host:port: %w", address, psg.ErrInvalid)
		}
		addresses[i] = strings.TrimSuffix(address, "/")
	}
	return &RESTClient{addresses, &http.Client{Timeout: 30 * time.Second}}, nil
}

// Status returns where the controller stands.
func (c *RESTClient) Status(ctx context.Context) (Position, error) {
	return fetch[Position](ctx, c, "/v1/status")
}

// Nodes returns every node.
func (c *RESTClient) Nodes(ctx context.Context) ([]psg.Node, error) {
	return fetch[[]psg.Node](ctx, c, "/v1/nodes")
}

// Node returns the node with an ID, or the beginning of one.
func (c *RESTClient) Node(ctx context.Context, id string) (psg.Node, error) {
	return fetch[psg.Node](ctx, c, "/v1/node/"+url.PathEscape(id))
}

// Workloads returns every workload.
func (c *RESTClient) Workloads(ctx context.Context) ([]psg.Workload, error) {
	return fetch[[]psg.Workload](ctx, c, "/v1/workloads")
}

// Asks returns where the asks of a job stand, all its groups; of every job if
// job is empty.
func (c *RESTClient) Asks(ctx context.Context, namespace, job string) ([]psg.AskStatus, error) {
	query := url.Values{}
	if job != "" {
		query = url.Values{"namespace": {namespace}, "job": {job}}
	}
	return fetch[[]psg.AskStatus](ctx, c, "/v1/asks?"+query.Encode())
}

// Ask returns where one ask stands; an allocation ID, or its beginning, names
// its ask.
func (c *RESTClient) Ask(ctx context.Context, id string) (psg.AskStatus, error) {
	return fetch[psg.AskStatus](ctx, c, "/v1/ask/"+url.PathEscape(id))
}

func fetch[T any](ctx context.Context, c *RESTClient, path string) (T, error) {
	var value T
	response, err := c.get(ctx, path)
	if err != nil {
		return value, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return value, refusal(response)
	}
	if err := json.NewDecoder(response.Body).Decode(&value); err != nil {
		return value, fmt.Errorf("read answer to %s: %w", path, err)
	}
	return value, nil
}

// get asks the first controller that is there and has read the ledger.
func (c *RESTClient) get(ctx context.Context, path string) (*http.Response, error) {
	var errs []error
	for _, address := range c.addresses {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		if err != nil {
			return nil, err
		}
		response, err := c.http.Do(request)
		if err == nil && response.StatusCode == http.StatusServiceUnavailable {
			err = refusal(response)
			response.Body.Close()
		}
		if err == nil {
			return response, nil
		}
		errs = append(errs, err)
	}
	return nil, answered{"no controller answers: " + errors.Join(errs...).Error(), psg.ErrUnavailable}
}

// answered is an error in the words it came in, with what it is one of.
type answered struct {
	text string
	kind error
}

func (e answered) Error() string { return e.text }
func (e answered) Unwrap() error { return e.kind }

// refusal reads the error that a controller answered with.
func refusal(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	var told struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &told) != nil || told.Error == "" {
		told.Error = strings.TrimSpace(string(body))
	}
	if response.StatusCode == http.StatusNotFound {
		return answered{told.Error, psg.ErrUnknown}
	}
	return fmt.Errorf("controller answered %s: %s", response.Status, told.Error)
}
