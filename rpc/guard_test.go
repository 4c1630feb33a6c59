package rpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
)

const first, second = "0123456789abcdefghij", "another-token-of-some-length"

func tokens(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func guard(t *testing.T) *Guard {
	t.Helper()
	g, err := ReadTokens(tokens(t, "# gates\n"+first+"\n\n"+second+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGuard_RESTAsksForAToken(t *testing.T) {
	face := guard(t).REST(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, c := range map[string]struct {
		path, header string
		want         int
	}{
		"none":              {"/v1/nodes", "", http.StatusUnauthorized},
		"the first":         {"/v1/nodes", "Bearer " + first, http.StatusOK},
		"the second":        {"/v1/nodes", "bearer " + second, http.StatusOK},
		"a part of one":     {"/v1/nodes", "Bearer " + first[:19], http.StatusUnauthorized},
		"more than one":     {"/v1/nodes", "Bearer " + first + second, http.StatusUnauthorized},
		"an empty one":      {"/v1/nodes", "Bearer ", http.StatusUnauthorized},
		"a comment":         {"/v1/nodes", "Bearer # gates", http.StatusUnauthorized},
		"another scheme":    {"/v1/nodes", "Basic " + first, http.StatusUnauthorized},
		"metrics":           {"/metrics", "", http.StatusUnauthorized},
		"health":            {"/v1/health", "", http.StatusOK},
		"leader":            {"/v1/leader", "", http.StatusOK},
		"beyond health":     {"/v1/health/../nodes", "", http.StatusUnauthorized},
		"a path like that":  {"/v1/leader/", "", http.StatusUnauthorized},
		"a registration":    {"/v1/register/plan", "", http.StatusUnauthorized},
		"one with a prefix": {"/v1/nodes", "BearerBearer " + first, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.URL.Path = c.path
			request.Header.Set("Authorization", c.header)
			answer := httptest.NewRecorder()
			if face.ServeHTTP(answer, request); answer.Code != c.want {
				t.Errorf("answered %d, want %d", answer.Code, c.want)
			}
		})
	}
}

// granter grants whatever is asked.
type granter struct{}

func (granter) Place(_ context.Context, asks []psg.Ask, _ uint64) ([]psg.Order, uint64, error) {
	orders := make([]psg.Order, len(asks))
	for i := range asks {
		orders[i] = psg.Order{Kind: psg.Grant, Ask: asks[i].ID}
	}
	return orders, 1, nil
}

func (granter) Reserve(context.Context, psg.Reservation) ([]psg.Placement, []psg.Refusal, error) {
	return nil, nil, nil
}

func TestGuard_GRPCAsksForAToken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- NewServer(granter{}, granter{}).Guarded(guard(t)).Serve(ctx, listener, nil) }()
	t.Cleanup(func() { stop(); <-served })
	for name, c := range map[string]struct {
		token string
		want  codes.Code
	}{"none": {"", codes.Unauthenticated}, "a wrong one": {first + "x", codes.Unauthenticated}, "the second": {second, codes.OK}} {
		t.Run(name, func(t *testing.T) {
			client, err := Dial([]string{listener.Addr().String()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Bearer(c.token).Place(ctx, psg.Ask{ID: "a", Alloc: "a", Workload: psg.WorkloadID{Job: "j", Group: "g"}}, 0)
			if status.Code(errors.Unwrap(err)) != c.want && status.Code(err) != c.want {
				t.Errorf("Place = %v, want %s", err, c.want)
			}
		})
	}
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health without a token: %v", err)
	}
}

func TestReadTokens_NamesTheLineThatIsWrong(t *testing.T) {
	for content, want := range map[string]string{
		"":                        "holds none",
		"# none\n\n":              "holds none",
		first + "\nshort\n":       ":2: a token is at least",
		"two words of a sentence": ":1: a token is at least",
	} {
		if _, err := ReadTokens(tokens(t, content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadTokens of %q = %v, want %q in it", content, err, want)
		}
	}
	if _, err := ReadTokens(filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadTokens of no file = %v", err)
	}
	if token, err := ReadToken(tokens(t, "# mine\n  "+first+"  \n"+second)); err != nil || token != first {
		t.Errorf("ReadToken = %q, %v", token, err)
	}
}
