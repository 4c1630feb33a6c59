package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/executor"
)

const (
	maxReports     = 4096 // unreported starts; beyond it the event stream of Nomad must tell the controller
	reportsAtOnce  = 8
	reportsSubdir  = "unreported"
	reportFileType = ".json"
)

// reports are the starts that happened without a decision and that no
// controller knows of yet.
type reports struct {
	mu      sync.Mutex
	pending map[psg.RequestID]struct{}
	slots   chan struct{} // one for each call at a time
}

func (r *reports) init() {
	r.pending = map[psg.RequestID]struct{}{}
	r.slots = make(chan struct{}, reportsAtOnce)
}

// claim reports whether the caller shall report an ask: nobody does already,
// and there is room.
func (r *reports) claim(id psg.RequestID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.pending[id]; taken || len(r.pending) == maxReports {
		return false
	}
	r.pending[id] = struct{}{}
	return true
}

func (r *reports) drop(id psg.RequestID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, id)
}

// report is a start to be reported, as it is kept on disk.
type report struct {
	Ask    psg.Ask `json:"ask"`
	TaskID string  `json:"task_id"`
	Task   string  `json:"task"`
}

// reportLater tells the controllers of a start once they answer again. Where
// there is a state directory, the report survives the driver.
func (d *Driver) reportLater(stateDir string, r report) error {
	if !d.reports.claim(r.Ask.ID) {
		d.log.Warn("start not reported", "alloc", r.Ask.Alloc, "reason", "reported already or too many")
		return nil
	}
	path := ""
	if stateDir != "" {
		dir := filepath.Join(stateDir, reportsSubdir)
		path = filepath.Join(dir, shortID(string(r.Ask.ID))+reportFileType)
		if err := errors.Join(os.MkdirAll(dir, 0o700), executor.WriteJSON(path, r)); err != nil {
			d.log.Warn("unreported start will not survive the driver", "alloc", r.Ask.Alloc, "error", err)
		}
	}
	err := d.spawn(func() { d.deliver(d.ctx, r, path) })
	if err != nil {
		d.reports.drop(r.Ask.ID)
	}
	return err
}

// deliver calls until a controller answers.
func (d *Driver) deliver(ctx context.Context, r report, path string) {
	defer d.reports.drop(r.Ask.ID)
	retry := gate{}
	for {
		select {
		case <-ctx.Done():
			return
		case d.reports.slots <- struct{}{}:
		}
		order, err := d.place(ctx, r.Ask, 0)
		<-d.reports.slots
		if err == nil {
			d.delivered(r, path, order)
			return
		}
		if errors.Is(err, psg.ErrInvalid) {
			d.log.Error("start can't be reported", "alloc", r.Ask.Alloc, "error", err)
			d.forget(r, path)
			return
		}
		if sleep(ctx, retry.backOff()) != nil {
			return
		}
	}
}

func (d *Driver) delivered(r report, path string, order psg.Order) {
	answer := waitMessage(order)
	if order.Kind == psg.Grant {
		answer = grantMessage(string(order.Node), order.Devices)
	}
	d.log.Info("start reported", "alloc", r.Ask.Alloc, "answer", answer)
	d.events.emit(Event{
		TaskID: r.TaskID, TaskName: r.Task, Alloc: r.Ask.Alloc, At: time.Now(),
		Message: "reported to the controller, which says: " + answer,
	})
	d.forget(r, path)
}

func (d *Driver) forget(r report, path string) {
	if path == "" {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("report not forgotten", "alloc", r.Ask.Alloc, "error", err)
	}
}

// readReports reads the reports that an earlier driver left, by their files.
func readReports(stateDir string, log *slog.Logger) (map[string]report, error) {
	if stateDir == "" {
		return nil, nil
	}
	dir := filepath.Join(stateDir, reportsSubdir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read unreported starts: %w", err)
	}
	left := map[string]report{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), reportFileType) {
			continue
		}
		var r report
		path := filepath.Join(dir, e.Name())
		if ok, err := executor.ReadJSON(path, &r); err != nil || !ok {
			log.Warn("unreported start is unreadable", "file", path, "error", err)
			continue
		}
		left[path] = r
	}
	return left, nil
}

// resumeReport takes up a report of an earlier driver. It stays on disk where
// that can't be now.
func (d *Driver) resumeReport(r report, path string) {
	if !d.reports.claim(r.Ask.ID) {
		return
	}
	if err := d.spawn(func() { d.deliver(d.ctx, r, path) }); err != nil {
		d.reports.drop(r.Ask.ID)
	}
}
