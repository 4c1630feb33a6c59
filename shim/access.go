package shim

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Access is how PSG's own requests reach Nomad. It signs them with what a token
// file holds at that moment, so that a token can be replaced under a running
// controller, and remembers which kinds of request fail, until one of the kind
// succeeds again.
type Access struct {
	tokenFile string // none if empty: requests are signed already
	next      http.RoundTripper

	mu       sync.Mutex
	troubles map[string]trouble // by kind of request; only those that fail
}

// trouble is a kind of request that fails.
type trouble struct {
	what        string
	since, last time.Time
}

// forgetTrouble is how long a failure is told of that nobody has tried again.
const forgetTrouble = 15 * time.Minute

// NewAccess returns an Access to the Nomad that the environment names, as for
// the nomad command, and a client that goes through it. A token file takes the
// place of NOMAD_TOKEN.
func NewAccess(tokenFile string) (*Access, *api.Client, error) {
	config := api.DefaultConfig()
	if strings.HasPrefix(config.Address, "unix:") {
		return nil, nil, fmt.Errorf("nomad address %q: PSG reaches Nomad over http or https only", config.Address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = false
	transport.MaxIdleConnsPerHost = 2 * parallel
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if err := api.ConfigureTLS(&http.Client{Transport: transport}, config.TLSConfig); err != nil {
		return nil, nil, fmt.Errorf("nomad TLS (%s): %w", TLSFiles(config.TLSConfig), err)
	}
	a := &Access{tokenFile: tokenFile, next: transport, troubles: map[string]trouble{}}
	config.HttpClient = &http.Client{Transport: a}
	if tokenFile != "" {
		config.SecretID = ""
		if _, err := a.token(); err != nil {
			return nil, nil, err
		}
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, nil, fmt.Errorf("nomad client: %w", err)
	}
	return a, client, nil
}

// TLSFiles names the files of Nomad's TLS that the environment names.
func TLSFiles(config *api.TLSConfig) string {
	var files []string
	for _, one := range [][2]string{{"NOMAD_CACERT", config.CACert}, {"NOMAD_CAPATH", config.CAPath}, {"NOMAD_CLIENT_CERT", config.ClientCert}, {"NOMAD_CLIENT_KEY", config.ClientKey}} {
		if one[1] != "" {
			files = append(files, one[0]+" "+one[1])
		}
	}
	return strings.Join(files, ", ")
}

func (a *Access) token() (string, error) {
	data, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("nomad token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("nomad token: %s is empty", a.tokenFile)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("nomad token: what %s holds is none: it has other than printable characters", a.tokenFile)
	}
	return token, nil
}

// RoundTrip sends one request.
func (a *Access) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := kindOf(r)
	if a.tokenFile != "" {
		token, err := a.token()
		if err != nil {
			if r.Body != nil {
				r.Body.Close()
			}
			a.note(kind, err.Error())
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Header.Set("X-Nomad-Token", token)
	}
	answer, err := a.next.RoundTrip(r)
	switch {
	case err != nil && r.Context().Err() != nil: // nobody wants it any more
	case err != nil:
		a.note(kind, fmt.Sprintf("is not reached: %v", err))
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode >= http.StatusInternalServerError:
		a.note(kind, refusal(answer))
	default:
		a.note(kind, "")
	}
	return answer, err
}

// refusal is what a negative answer says; the answer can still be read.
func refusal(answer *http.Response) string {
	const most = 4 << 10
	raw, _ := io.ReadAll(io.LimitReader(answer.Body, most)) // whoever reads on meets the error again
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(raw), answer.Body), answer.Body}
	said := raw
	if answer.Header.Get("Content-Encoding") == "gzip" {
		if unzipped, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			said, _ = io.ReadAll(io.LimitReader(unzipped, most)) // as far as it goes
		}
	}
	text := strings.TrimSpace(string(said))
	if answer.StatusCode == http.StatusForbidden {
		return fmt.Sprintf("refuses PSG's token, which has expired, was revoked or lacks a right: %s; the policy it needs is in docs/nomad.md", text)
	}
	return fmt.Sprintf("fails with %d: %s", answer.StatusCode, text)
}

// kindOf names what a request is about, without what it is for.
func kindOf(r *http.Request) string {
	parts := strings.SplitN(r.URL.Path, "/", 4)
	kind := r.Method + " " + strings.Join(parts[:min(len(parts), 3)], "/")
	if namespace := r.URL.Query().Get("namespace"); namespace != "" {
		kind += " in namespace " + namespace
	}
	return kind
}

// note takes what has become of a kind of request, "" if it went well.
func (a *Access) note(kind, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if what == "" {
		delete(a.troubles, kind)
		return
	}
	now := time.Now().UTC()
	one := a.troubles[kind]
	if one.what == "" {
		one.since = now
	}
	one.what, one.last = what, now
	a.troubles[kind] = one
}

// Troubles are the kinds of request that fail now, sorted, each with why and
// since when.
func (a *Access) Troubles() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.troubles, func(_ string, t trouble) bool { return time.Since(t.last) > forgetTrouble })
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(a.troubles)) {
		t := a.troubles[kind]
		all = append(all, fmt.Sprintf("Nomad %s (%s, since %s)", t.what, kind, t.since.Format(time.RFC3339)))
	}
	return all
}
