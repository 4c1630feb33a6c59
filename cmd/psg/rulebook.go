package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/hclspec"
	"github.com/psgrid/psg/policies"
)

// rulebook gives the controller whatever policies are in force, and knows which
// those are: what lies in their directory by now may be others.
type rulebook struct {
	store *policies.Store
	dir   string

	mu     sync.Mutex
	bundle psg.Bundle // in force
}

func newRulebook(dir string) (*rulebook, error) {
	store, err := policies.NewStore(dir, policies.Config{})
	if err != nil {
		return nil, err
	}
	r := &rulebook{store: store, dir: dir}
	r.bundle, err = bundleOf(store.Current().Bundle(), dir)
	return r, err
}

// inForce is what each cycle decides by.
func (r *rulebook) inForce() controller.Policy { return r.store.Current() }

// reload puts what is in the directory in force; a faulty bundle changes nothing.
func (r *rulebook) reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.store.Reload(r.dir); err != nil {
		return err
	}
	bundle, err := bundleOf(r.store.Current().Bundle(), r.dir)
	if err != nil { // it went as soon as it was read: it is in force, without a sum
		bundle.Name, bundle.Version = r.store.Current().Bundle().Name, r.store.Current().Bundle().Version
	}
	r.bundle = bundle
	return nil
}

// report has the policies in force recorded, if they are others than before. The
// leader's are what counts.
func (r *rulebook) report(ctx context.Context, decider *controller.Controller) error {
	r.mu.Lock()
	bundle := r.bundle
	r.mu.Unlock()
	return decider.Report(ctx, []psg.Delta{psg.BundleChanged{Bundle: bundle, At: time.Now()}})
}

// reloading loads the bundle anew at each signal.
func reloading(ctx context.Context, reload <-chan os.Signal, rules *rulebook, log *slog.Logger, decider *controller.Controller) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			if err := rules.reload(); err != nil {
				log.Error("policies not reloaded: the old ones stay in force", "error", err)
				continue
			}
			log.Info("policies reloaded", "bundle", rules.dir)
			decider.Wake()
			if _, _, leading := decider.Position(); !leading {
				continue // whoever leads says what its policies are
			}
			if err := rules.report(ctx, decider); err != nil {
				log.Error("policy change not recorded", "error", err)
			}
		}
	}
}

// bundleOf names the version of the policies in a directory.
func bundleOf(declared hclspec.Bundle, dir string) (psg.Bundle, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %d\n", filepath.ToSlash(name), len(content))
		sum.Write(content)
		return nil
	})
	if err != nil {
		return psg.Bundle{}, fmt.Errorf("sum of bundle %s: %w", dir, err)
	}
	return psg.Bundle{Name: declared.Name, Version: declared.Version, Digest: hex.EncodeToString(sum.Sum(nil))}, nil
}
