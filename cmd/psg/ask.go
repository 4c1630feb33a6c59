package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/psgrid/psg"
)

const (
	askWithin = 10 * time.Second
	// moveWithin is how long a controller may take to begin moves, which waits for
	// each one's room and for Nomad to take the job.
	moveWithin = 2 * time.Minute
)

// ask has one controller after another answer until one leads, each within a time,
// and shows them the token. Without a body it only reads. psg.ErrUnavailable means
// that none of them leads.
func (a address) ask(ctx context.Context, within time.Duration, path string, body, into any) error {
	method, data := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("ask controller: %w", err)
		}
		method = http.MethodPost
	}
	client := &http.Client{Timeout: within, Transport: tokenBearer{}}
	var errs []error
	for one := range strings.SplitSeq(string(a), ",") {
		err := exchange(ctx, client, method, strings.TrimSuffix(strings.TrimSpace(one), "/")+path, data, into)
		if !errors.Is(err, psg.ErrUnavailable) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
