// Package library holds the policies that come with PSG, each a bundle
// directory of its own, to be copied and changed. `psg dev` runs on them.
package library

import "embed"

// Files are the bundles, by directory.
//
//go:embed */bundle.hcl */*.rego
var Files embed.FS
