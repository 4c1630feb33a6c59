package policies

import "github.com/psgrid/psg"

// Limits are the bounds by label that the bundle declares, in its order. The
// caller must not change them.
func (s *Set) Limits() []psg.Limit { return s.bundle.Limits }
