package main

import (
	"net/http"
	"os"

	"github.com/psgrid/psg/rpc"
)

// tokenVariable is the environment variable that names the file with the token
// that commands show to controllers.
const tokenVariable = "PSG_TOKEN_FILE"

// tokenBearer is a transport that shows that token. It reads the file for each
// request: a token may be replaced while the proxy runs.
type tokenBearer struct{}

// RoundTrip sends a request.
func (tokenBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := rpc.ReadToken(os.Getenv(tokenVariable))
	if err != nil {
		return nil, err
	}
	return rpc.Bearer(token, http.DefaultTransport).RoundTrip(r)
}

// guarded has a face ask for a token, if the controller has a file of them.
func (c serveConfig) guarded(face http.Handler) http.Handler {
	if c.tokens == nil {
		return face
	}
	return c.tokens.REST(face)
}
