package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

// Host is a loaded plugin and the tasks started through it. Its methods may be
// called at the same time.
type Host struct {
	config Config
	log    hclog.Logger
	schema *nomadpb.Spec // of a task's config

	mu       sync.Mutex // guards what follows
	client   *client
	info     Info
	tasks    map[TaskID]*task
	starts   int
	replaced chan struct{} // closed when client is replaced

	following sync.WaitGroup // event and fingerprint streams of the current client
}

// Start launches the plugin and takes it through everything that Nomad's client
// does before the first task. Close ends it.
func Start(ctx context.Context, config Config) (*Host, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	h := &Host{config: config, log: pluginLog(config.Log), tasks: map[TaskID]*task{}, replaced: make(chan struct{})}
	if err := h.load(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// load launches a plugin process and makes it the host's.
func (h *Host) load(ctx context.Context) error {
	c, err := launch(h.config.Binary, h.log)
	if err != nil {
		return err
	}
	if err := h.welcome(ctx, c); err != nil {
		c.kill()
		h.following.Wait()
		return err
	}
	return nil
}

func (h *Host) welcome(ctx context.Context, c *client) error {
	info, err := c.identify(ctx)
	if err != nil {
		return err
	}
	if err := c.configure(ctx, h.config.Plugin); err != nil {
		return err
	}
	schema, err := c.driver.TaskConfigSchema(ctx, &nomadpb.TaskConfigSchemaRequest{})
	if err != nil {
		return fmt.Errorf("task config schema: %w", err)
	}
	if _, err := c.driver.Capabilities(ctx, &nomadpb.CapabilitiesRequest{}); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	h.mu.Lock()
	h.schema, h.client, h.info = schema.GetSpec(), c, info
	h.mu.Unlock()
	return h.follow(ctx, c)
}

// follow begins to read what the plugin tells by itself, and returns once it
// has said how it is.
func (h *Host) follow(ctx context.Context, c *client) error {
	health, err := c.driver.Fingerprint(c.done, &nomadpb.FingerprintRequest{})
	if err != nil {
		return fmt.Errorf("fingerprint: %w", err)
	}
	events, err := c.driver.TaskEvents(c.done, &nomadpb.TaskEventsRequest{})
	if err != nil {
		return fmt.Errorf("task events: %w", err)
	}
	first := make(chan error, 1)
	h.following.Go(func() { h.readHealth(health, first) })
	h.following.Go(func() { h.readEvents(events) })
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) readHealth(stream nomadpb.Driver_FingerprintClient, first chan<- error) {
	for {
		f, err := stream.Recv()
		if err == nil && f.GetErr() != "" {
			err = errors.New(f.GetErr())
		}
		if err == nil {
			h.mu.Lock()
			h.info.Healthy = f.GetHealth() == nomadpb.FingerprintResponse_HEALTHY
			h.info.Health = f.GetHealthDescription()
			h.mu.Unlock()
		}
		select {
		case first <- err:
		default: // the first one has been said
		}
		if err != nil {
			return
		}
	}
}

func (h *Host) readEvents(stream nomadpb.Driver_TaskEventsClient) {
	for {
		e, err := stream.Recv()
		if err != nil {
			return
		}
		if h.config.OnEvent != nil {
			h.config.OnEvent(eventOf(e))
		}
	}
}

// Info says what the plugin is and how it is.
func (h *Host) Info() Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.info
}

func (h *Host) current() *client {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.client
}

// KillPlugin kills the plugin process with SIGKILL. Tasks go on; Reattach finds
// them again.
func (h *Host) KillPlugin() {
	h.current().kill()
	h.following.Wait()
}

// Reattach launches the plugin anew and lets it recover every task, as Nomad
// does when it finds the plugin gone. The error names the tasks that could not
// be recovered; the others are.
func (h *Host) Reattach(ctx context.Context) error {
	h.KillPlugin()
	if err := h.load(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	tasks := make([]*task, 0, len(h.tasks))
	for _, id := range sortedKeys(h.tasks) {
		tasks = append(tasks, h.tasks[id])
	}
	c := h.client
	h.mu.Unlock()
	var errs []error
	for _, t := range tasks {
		// A client that was restarted itself has lost the task's own config.
		t.handle.Config.MsgpackDriverConfig = nil
		_, err := c.driver.RecoverTask(ctx, &nomadpb.RecoverTaskRequest{TaskId: string(t.id), Handle: t.handle})
		if err != nil {
			errs = append(errs, fmt.Errorf("recover task %s: %w", t.id, err))
		}
	}
	h.mu.Lock()
	close(h.replaced)
	h.replaced = make(chan struct{})
	h.mu.Unlock()
	return errors.Join(errs...)
}

// Close kills every task, then the plugin, and finishes the log files also of
// tasks that could not be killed. Allocation directories stay.
func (h *Host) Close() error {
	h.mu.Lock()
	ids := sortedKeys(h.tasks)
	h.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, h.Destroy(context.Background(), id))
	}
	c := h.current()
	if _, err := c.driver.Shutdown(context.Background(), &nomadpb.ShutdownRequest{}); err != nil {
		errs = append(errs, fmt.Errorf("shut plugin down: %w", err))
	}
	h.KillPlugin()
	h.mu.Lock()
	left := h.tasks
	h.tasks = map[TaskID]*task{}
	h.mu.Unlock()
	for _, id := range sortedKeys(left) {
		errs = append(errs, left[id].logs.close())
	}
	return errors.Join(errs...)
}
