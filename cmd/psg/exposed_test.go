package main

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/psgrid/psg/rpc"
)

func TestWarnExposed_NamesEachFaceThatTheNetworkReaches(t *testing.T) {
	address := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 4680} }
	mutual := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
	for name, c := range map[string]struct {
		grpc, http, nats string
		tls              *tls.Config
		tokens           *rpc.Guard
		want             []string // faces warned of, in order
	}{
		"defaults":                    {"127.0.0.1", "127.0.0.1", "127.0.0.1:4222", nil, nil, nil},
		"IPv6 loopback":               {"::1", "::1", "localhost:4222", nil, nil, nil},
		"every address":               {"0.0.0.0", "::", ":4222", nil, nil, []string{"gRPC", "REST", "embedded"}},
		"client certificates":         {"10.0.0.1", "127.0.0.1", "", mutual, nil, nil},
		"TLS that asks for no client": {"10.0.0.1", "127.0.0.1", "", &tls.Config{}, nil, []string{"gRPC"}},
		"tokens in plain text":        {"10.0.0.1", "10.0.0.1", "", nil, &rpc.Guard{}, []string{"gRPC", "REST"}},
		"tokens over TLS":             {"10.0.0.1", "127.0.0.1", "", &tls.Config{}, &rpc.Guard{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			config := serveConfig{tls: c.tls, tokens: c.tokens, natsListen: c.nats, log: slog.New(slog.NewTextHandler(&out, nil))}
			config.warnExposed(address(c.grpc), address(c.http))
			lines := strings.Count(out.String(), "level=WARN")
			if lines != len(c.want) {
				t.Errorf("%d warnings, want %d:\n%s", lines, len(c.want), &out)
			}
			for _, face := range c.want {
				if !strings.Contains(out.String(), `msg="`+face) {
					t.Errorf("no warning of %s:\n%s", face, &out)
				}
			}
		})
	}
}

// A page in a browser can post text to loopback unasked; JSON it cannot.
func TestRegistrations_TakeJSONOnly(t *testing.T) {
	face := httptest.NewServer(withRegistrations(http.NotFoundHandler(), nil, nil))
	defer face.Close()
	for _, path := range []string{"/v1/register/judge", "/v1/register/plan", "/v1/register/abandon", "/v1/node/n1/rebalance"} {
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", ""} {
			response, err := http.Post(face.URL+path, kind, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusUnsupportedMediaType {
				t.Errorf("%s of %q: %s, want 415", path, kind, response.Status)
			}
		}
	}
}
