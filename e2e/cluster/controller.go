package cluster

import (
	"context"
	"net/http"
	"path/filepath"
	"syscall"
	"time"
)

// Controller is a `psg controller` process that keeps its addresses and its
// ledger from one start to the next.
type Controller struct {
	Binary string
	Dir    string // its streams and its output
	Bundle string
	Nomad  []string // variables that say how Nomad is reached
	NATS   string   // URLs of an external bus; its own in Dir if empty
	GRPC   string   // host:port
	REST   string   // host:port
	More   []string // further arguments

	*Process // nil until Start
}

// URL is the address of the REST face.
func (c *Controller) URL() string { return "http://" + c.REST }

// Start runs the process and returns when it leads.
func (c *Controller) Start(ctx context.Context) error {
	bus := []string{"-data-dir", filepath.Join(c.Dir, "streams"), "-nats-listen", ""}
	if c.NATS != "" {
		bus = []string{"-nats", c.NATS}
	}
	args := append([]string{"controller", "-name", "e2e", "-bundle", c.Bundle, "-grpc", c.GRPC, "-http", c.REST}, bus...)
	var err error
	c.Process, err = start(c.Binary, append(args, c.More...), environ(c.Nomad...), filepath.Join(c.Dir, "controller.log"), syscall.SIGKILL)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Second}
	return c.until(ctx, 30*time.Second, "the controller leads", func() (bool, error) {
		response, err := client.Get(c.URL() + "/v1/leader")
		if err != nil {
			return false, err
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
}
