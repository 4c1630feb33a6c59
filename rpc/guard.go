package rpc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// minToken is the shortest token that is taken, in characters: what somebody
// made up is none.
const minToken = 20

// Guard lets in who shows one of a few tokens. The zero Guard lets nobody in.
type Guard struct {
	sums [][sha256.Size]byte // so that comparing takes the same time for any length
}

// ReadTokens reads a guard's tokens from a file: one a line, the whole of it, but
// for empty lines and those that begin with #. Several are for the time in which
// one replaces another.
func ReadTokens(file string) (*Guard, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	guard := &Guard{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		token := strings.TrimSpace(lines.Text())
		switch {
		case token == "" || strings.HasPrefix(token, "#"):
		case len(token) < minToken || strings.ContainsAny(token, " \t"):
			return nil, fmt.Errorf("%s:%d: a token is at least %d characters without a space", file, n, minToken)
		default:
			guard.sums = append(guard.sums, sha256.Sum256([]byte(token)))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read tokens: %s: %w", file, err)
	}
	if len(guard.sums) == 0 {
		return nil, fmt.Errorf("read tokens: %s holds none", file)
	}
	return guard, nil
}

// allows reports whether an Authorization header shows a token.
func (g *Guard) allows(header string) bool {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	allowed := 0
	for _, one := range g.sums {
		allowed |= subtle.ConstantTimeCompare(sum[:], one[:])
	}
	return allowed == 1
}

// errNoToken is what those are told who show none.
var errNoToken = errors.New("this controller asks for a token: Authorization: Bearer TOKEN")

// open are the paths that load balancers and watchdogs ask, who show nothing.
var open = map[string]bool{"/v1/health": true, "/v1/leader": true}

// REST guards a face, but for /v1/health and /v1/leader.
func (g *Guard) REST(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !open[r.URL.Path] && !g.allows(r.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": errNoToken.Error()})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Guarded has the server ask for a token, unless a client has shown a certificate
// that TLS has verified. Health is served to all. A nil guard asks nobody.
func (s *Server) Guarded(g *Guard) *Server {
	s.guard = g
	return s
}

// check is a gRPC interceptor.
func (g *Guard) check(ctx context.Context, request any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !strings.HasPrefix(call.FullMethod, "/"+psgv1.PSGService_ServiceDesc.ServiceName+"/") || certified(ctx) {
		return next(ctx, request)
	}
	for _, header := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		if g.allows(header) {
			return next(ctx, request)
		}
	}
	return nil, status.Error(codes.Unauthenticated, errNoToken.Error())
}

// certified reports whether a caller has shown a certificate that was verified.
func certified(ctx context.Context) bool {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	shown, ok := from.AuthInfo.(credentials.TLSInfo)
	return ok && len(shown.State.VerifiedChains) > 0
}

// Bearer has the client show a token with each call. It is called before the
// first.
func (c *Client) Bearer(token string) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
	return c
}

// show adds the client's token to a call.
func (c *Client) show(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
}

// Bearer returns a transport that shows a token with each request; none for an
// empty one.
func Bearer(token string, next http.RoundTripper) http.RoundTripper {
	if token == "" {
		return next
	}
	return bearer{token, next}
}

type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip sends a request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// Over has the client send its requests over a transport, such as Bearer's.
func (c *RESTClient) Over(transport http.RoundTripper) *RESTClient {
	c.http.Transport = transport
	return c
}

// ReadToken reads the token that a client shows from a file: its first line that
// is one. An empty name means none.
func ReadToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		if token := strings.TrimSpace(line); token != "" && !strings.HasPrefix(token, "#") {
			if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return "", fmt.Errorf("read token: what %s holds is none: it has other than printable characters", file)
			}
			return token, nil
		}
	}
	return "", fmt.Errorf("read token: %s holds none", file)
}
