package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// brain answers as a controller would, from fields a test sets.
type brain struct {
	err    error
	orders func(asks []psg.Ask, after uint64) []psg.Order
	asked  chan []psg.Ask
}

func (b *brain) Place(ctx context.Context, asks []psg.Ask, after uint64) ([]psg.Order, uint64, error) {
	if b.asked != nil {
		b.asked <- asks
	}
	if b.err != nil {
		return nil, 0, b.err
	}
	if b.orders == nil { // nothing newer comes
		<-ctx.Done()
		return []psg.Order{{Kind: psg.Wait, Ask: asks[0].ID}}, after, nil
	}
	return b.orders(asks, after), after + 1, nil
}

func (b *brain) Reserve(_ context.Context, r psg.Reservation) ([]psg.Placement, []psg.Refusal, error) {
	if err := r.Validate(); err != nil {
		return nil, nil, err
	}
	return []psg.Placement{{Ask: psg.Ask{ID: r.ID + "/0"}, Node: "n1", State: psg.Reserved, Request: r.Request}}, nil, b.err
}

// serveBrain serves a brain on loopback until the test ends.
func serveBrain(t *testing.T, b *brain) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- NewServer(b, b).Serve(ctx, listener, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, addresses ...string) *Client {
	t.Helper()
	client, err := Dial(addresses, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func rawClient(t *testing.T, address string) psgv1.PSGServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return psgv1.NewPSGServiceClient(conn)
}

func TestClient_PlacesAnAsk(t *testing.T) {
	b := &brain{asked: make(chan []psg.Ask, 1), orders: func(asks []psg.Ask, after uint64) []psg.Order {
		return []psg.Order{{Kind: psg.Grant, Ask: asks[0].ID, Node: asks[0].Node, Sequence: after + 1}}
	}}
	ask := psg.Ask{ID: "a1", Alloc: "a1", Node: "n1", Workload: psg.WorkloadID{Namespace: "default", Job: "a/b", Group: "ü"}, At: time.Unix(1, 0).UTC()}
	order, err := dial(t, serveBrain(t, b)).Place(t.Context(), ask, 41)
	if err != nil {
		t.Fatal(err)
	}
	if order.Kind != psg.Grant || order.Node != "n1" || order.Sequence != 42 {
		t.Errorf("order = %+v", order)
	}
	if got := <-b.asked; got[0] != ask {
		t.Errorf("controller got %+v, want %+v", got[0], ask)
	}
}

func TestClient_PassesOverWhoDoesNotLead(t *testing.T) {
	leads := &brain{orders: func(asks []psg.Ask, _ uint64) []psg.Order { return []psg.Order{{Kind: psg.Grant, Ask: asks[0].ID}} }}
	stands := &brain{err: psg.ErrNotLeader}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	client := dial(t, closed.Addr().String(), serveBrain(t, stands), serveBrain(t, leads))
	for range 3 {
		if order, err := client.Place(t.Context(), psg.Ask{ID: "a"}, 0); err != nil || order.Kind != psg.Grant {
			t.Fatalf("Place = %+v, %v", order, err)
		}
	}
}

func TestClient_DoesNotStayWithOneThatHangs(t *testing.T) {
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	leads := &brain{orders: func(asks []psg.Ask, _ uint64) []psg.Order { return []psg.Order{{Kind: psg.Grant, Ask: asks[0].ID}} }}
	client := dial(t, serveBrain(t, leads), hangs.Addr().String())
	client.prefer(hangs.Addr().String(), true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Place(ctx, psg.Ask{ID: "a"}, 0); err == nil {
		t.Fatal("an answer from a controller that hangs")
	}
	if order, err := client.Place(t.Context(), psg.Ask{ID: "a"}, 0); err != nil || order.Kind != psg.Grant {
		t.Errorf("Place = %+v, %v, want the other controller's grant", order, err)
	}
}

func TestErrors_CrossTheWire(t *testing.T) {
	for _, want := range []error{psg.ErrInvalid, psg.ErrUnknown, psg.ErrBusy, psg.ErrNotLeader, psg.ErrUnavailable} {
		b := &brain{err: fmt.Errorf("job %q: %w", "web", want)}
		_, err := dial(t, serveBrain(t, b)).Place(t.Context(), psg.Ask{ID: "a"}, 0)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), `job "web"`) {
			t.Errorf("error = %v, want %v with its text", err, want)
		}
	}
}

func TestServer_AnswersALongPollWhenItsWaitIsOver(t *testing.T) {
	response, err := rawClient(t, serveBrain(t, &brain{})).PlaceWorkload(t.Context(), &psgv1.PlaceWorkloadRequest{
		Asks: []*psgv1.Ask{{Id: "a", Workload: &psgv1.WorkloadID{}}}, Wait: durationpb.New(20 * time.Millisecond), After: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Orders) != 1 || response.Orders[0].Refusal != nil || response.Sequence != 7 {
		t.Errorf("response = %v, want to wait", response)
	}
}

func TestServer_RefusesWrongRequests(t *testing.T) {
	service := rawClient(t, serveBrain(t, &brain{}))
	for name, wrong := range map[string]struct {
		call func() error
		code codes.Code
		want string
	}{
		"wait": {func() error {
			_, err := service.PlaceWorkload(t.Context(), &psgv1.PlaceWorkloadRequest{Wait: durationpb.New(time.Hour)})
			return err
		}, codes.InvalidArgument, "wait 1h0m0s"},
		"asks": {func() error {
			_, err := service.PlaceWorkload(t.Context(), &psgv1.PlaceWorkloadRequest{Asks: make([]*psgv1.Ask, maxAsks+1)})
			return err
		}, codes.InvalidArgument, "10001 asks"},
		"ask": {func() error {
			_, err := service.PlaceWorkload(t.Context(), &psgv1.PlaceWorkloadRequest{Asks: []*psgv1.Ask{{Id: "a"}}})
			return err
		}, codes.InvalidArgument, "asks[0]: invalid: ask.workload: missing"},
		"hold": {func() error {
			_, err := service.ReserveResources(t.Context(), &psgv1.ReserveResourcesRequest{RequestId: "r", Count: 1})
			return err
		}, codes.InvalidArgument, "hold"},
		"request": {func() error {
			_, err := service.ReserveResources(t.Context(), &psgv1.ReserveResourcesRequest{RequestId: "r", Alloc: "a", Request: &psgv1.Resources{MemoryMb: -1}})
			return err
		}, codes.InvalidArgument, "memory_mb"},
		"rebalance": {func() error {
			_, err := service.RebalanceNode(t.Context(), &psgv1.RebalanceNodeRequest{})
			return err
		}, codes.Unimplemented, "does not move"},
		"preempt": {func() error {
			_, err := service.Preempt(t.Context(), &psgv1.PreemptRequest{})
			return err
		}, codes.Unimplemented, "does not preempt"},
	} {
		t.Run(name, func(t *testing.T) {
			err := wrong.call()
			if status.Code(err) != wrong.code || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("error = %v, want %s with %q", err, wrong.code, wrong.want)
			}
		})
	}
}

func TestServer_Reserves(t *testing.T) {
	response, err := rawClient(t, serveBrain(t, &brain{})).ReserveResources(t.Context(), &psgv1.ReserveResourcesRequest{
		RequestId: "r", Count: 1, Hold: durationpb.New(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Placements) != 1 || response.Placements[0].GetAsk().GetId() != "r/0" {
		t.Errorf("response = %v", response)
	}
}

func TestDial_RefusesNoAddress(t *testing.T) {
	if _, err := Dial(nil, nil); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("Dial = %v, want ErrInvalid", err)
	}
}

// cluster is what a Reader shows.
type cluster struct {
	leading bool
	leader  string
}

func (cluster) Snapshot() *psg.Snapshot {
	return &psg.Snapshot{Nodes: []psg.Node{{ID: "aaaa-1", Name: "one", Ready: true}, {ID: "aaaa-2"}, {ID: "bbbb-3"}}}
}

func (cluster) Asks() []psg.AskStatus {
	web := psg.WorkloadID{Namespace: "default", Job: "web", Group: "g"}
	return []psg.AskStatus{
		{Ask: psg.Ask{ID: "alloc-1", Workload: web}, State: psg.Running},
		{Ask: psg.Ask{ID: "alloc-2", Workload: psg.WorkloadID{Namespace: "other", Job: "web", Group: "g"}}, State: psg.Queued},
	}
}

func (c cluster) Position() (uint64, psg.Epoch, bool) { return 9, 2, c.leading }

func (c cluster) Leader() psg.Leader { return psg.Leader{Name: c.leader} }

func TestREST_AnswersAndRefuses(t *testing.T) {
	server := httptest.NewServer(REST(cluster{leading: true}))
	defer server.Close()
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/v1/status":                       {200, `"sequence": 9`},
		"/v1/health":                       {200, `"ok"`},
		"/v1/node/bbbb":                    {200, `"id": "bbbb-3"`},
		"/v1/node/aaaa":                    {400, "beginning of 2 node IDs"},
		"/v1/node/zzzz":                    {404, "unknown node"},
		"/v1/workloads":                    {200, "[]"},
		"/v1/asks?job=web":                 {200, "alloc-1"},
		"/v1/asks?job=web&namespace=other": {200, "alloc-2"},
		"/v1/asks?job=none":                {200, "[]"},
		"/v1/ask/alloc-1":                  {200, `"state": "running"`},
		"/metrics":                         {200, `psg_asks{state="queued"} 1`},
	} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want.code || !strings.Contains(string(body), want.body) {
			t.Errorf("GET %s = %d %s, want %d with %q", path, response.StatusCode, body, want.code, want.body)
		}
	}
}

func TestREST_TellsALeaderFromAStandby(t *testing.T) {
	for name, want := range map[string]struct {
		reader         cluster
		health, leader int
	}{
		"leads":   {cluster{leading: true, leader: "a"}, 200, 200},
		"follows": {cluster{leader: "b"}, 200, 503},
		"alone":   {cluster{}, 503, 503},
	} {
		for path, code := range map[string]int{"/v1/health": want.health, "/v1/leader": want.leader} {
			recorder := httptest.NewRecorder()
			REST(want.reader).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			var told struct{ Error string }
			if err := json.Unmarshal(recorder.Body.Bytes(), &told); err != nil || recorder.Code != code || (told.Error == "") != (code == 200) {
				t.Errorf("%s: GET %s = %d %s, want %d", name, path, recorder.Code, recorder.Body, code)
			}
		}
	}
}

func TestClient_GoesWhereAStandbySaysThatTheLeaderIs(t *testing.T) {
	leads := &brain{orders: func(asks []psg.Ask, _ uint64) []psg.Order { return []psg.Order{{Kind: psg.Grant, Ask: asks[0].ID}} }}
	stands := &brain{err: fmt.Errorf("place: %w", &psg.NotLeaderError{Controller: "b", Leader: psg.Leader{Name: "a", GRPC: serveBrain(t, leads)}})}
	client := dial(t, serveBrain(t, stands))
	if order, err := client.Place(t.Context(), psg.Ask{ID: "a"}, 0); err != nil || order.Kind != psg.Grant {
		t.Fatalf("Place = %+v, %v", order, err)
	}
	stands.err = errors.New("asked again, although another leads")
	if _, err := client.Place(t.Context(), psg.Ask{ID: "a"}, 0); err != nil {
		t.Errorf("second Place = %v", err)
	}
}

func TestErrors_SayWhenToTryAgain(t *testing.T) {
	_, err := rawClient(t, serveBrain(t, &brain{err: psg.ErrBusy})).PlaceWorkload(t.Context(), &psgv1.PlaceWorkloadRequest{})
	details := status.Convert(err).Details()
	if status.Code(err) != codes.ResourceExhausted || len(details) != 1 {
		t.Fatalf("error = %v %v", err, details)
	}
	if retry, ok := details[0].(*errdetails.RetryInfo); !ok || retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("details = %v, want a retry delay", details)
	}
}

func TestRESTClient_AsksTheFirstThatAnswers(t *testing.T) {
	server := httptest.NewServer(REST(cluster{leading: true}))
	defer server.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	client, err := NewRESTClient("http://" + closed.Addr().String() + "," + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRESTClient_ReadsWhatRESTServes(t *testing.T) {
	server := httptest.NewServer(REST(cluster{leading: true}))
	defer server.Close()
	client, err := NewRESTClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if nodes, err := client.Nodes(t.Context()); err != nil || len(nodes) != 3 {
		t.Errorf("Nodes = %v, %v", nodes, err)
	}
	if node, err := client.Node(t.Context(), "bbbb"); err != nil || node.ID != "bbbb-3" {
		t.Errorf("Node = %v, %v", node, err)
	}
	if asks, err := client.Asks(t.Context(), "default", "web"); err != nil || len(asks) != 1 {
		t.Errorf("Asks = %v, %v", asks, err)
	}
	if _, err := client.Ask(t.Context(), "nothing"); !errors.Is(err, psg.ErrUnknown) {
		t.Errorf("Ask = %v, want ErrUnknown", err)
	}
	if at, err := client.Status(t.Context()); err != nil || !at.Leading || at.Epoch != 2 {
		t.Errorf("Status = %+v, %v", at, err)
	}
	if _, err := NewRESTClient("127.0.0.1:80"); err == nil {
		t.Error("an address without a scheme was accepted")
	}
}
