package poll

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxAnswer bounds the answer of a source, in bytes.
const maxAnswer = 64 << 20

// document fetches a JSON document. Numbers keep all their digits.
func (p *Poller) document(ctx context.Context, url string) (any, error) {
	var value any
	if err := p.get(ctx, url, &value); err != nil {
		return nil, err
	}
	return value, nil
}

// get fetches and decodes one JSON value.
func (p *Poller) get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask source: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := p.config.Client.Do(request)
	if err != nil {
		return fmt.Errorf("ask source: %w", err)
	}
	defer response.Body.Close()
	body := &io.LimitedReader{R: response.Body, N: maxAnswer + 1}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(body, 300)) // what can be read of why
		return fmt.Errorf("source answers %s: %s", response.Status, text)
	}
	decoder := json.NewDecoder(body)
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		if body.N == 0 {
			return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
		}
		return fmt.Errorf("decode the answer: %w", err)
	}
	return nil
}
