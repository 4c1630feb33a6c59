//go:build !cgo

package gpu

import (
	"context"
	"errors"

	"github.com/psgrid/psg/agent"
)

type driver struct{}

var errNoCgo = errors.New("this program was built without cgo (CGO_ENABLED=0), which loading NVML needs")

// New returns a source that fails: there is no way to load the library.
func New(config Config) *Source { return &Source{config: config.withDefaults()} }

// Measure says why nothing can be measured.
func (s *Source) Measure(context.Context, agent.Put) error { return errNoCgo }
