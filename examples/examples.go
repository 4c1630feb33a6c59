// Package examples holds the job files that `psg dev` submits and the docs
// show, as HCL and as the JSON that `nomad job run -output` makes of it.
package examples

import "embed"

// Jobs are the job files in JSON, NAME.nomad.json.
//
//go:embed *.nomad.json
var Jobs embed.FS
