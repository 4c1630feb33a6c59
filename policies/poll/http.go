package poll

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxAnswer bounds the answer of a source, in bytes.
const maxAnswer = 64 << 20

// document fetches a JSON document. Whether it is one is the target's to see.
func (p *Poller) document(ctx context.Context, address string) (any, error) {
	text, err := p.get(ctx, address)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// get fetches what is at a URL.
func (p *Poller) get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask source: %w", withoutSecrets(err))
	}
	request.Header.Set("Accept", "application/json")
	response, err := p.config.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask source: %w", withoutSecrets(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300)) // what can be read of why
		return nil, fmt.Errorf("source answers %s: %s", response.Status, text)
	}
	var text bytes.Buffer
	if response.ContentLength <= maxAnswer {
		text.Grow(int(max(response.ContentLength, 0)) + bytes.MinRead)
	}
	if _, err := text.ReadFrom(io.LimitReader(response.Body, maxAnswer+1)); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if text.Len() > maxAnswer {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	return text.Bytes(), nil
}

// withoutSecrets is an error that names an address by no more than its host and
// path: logs get it, and users and queries may be tokens.
func withoutSecrets(err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err
	}
	address, wrong := url.Parse(failed.URL)
	if wrong != nil {
		return failed.Err
	}
	shown := url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}
	return &url.Error{Op: failed.Op, URL: shown.String(), Err: failed.Err}
}
