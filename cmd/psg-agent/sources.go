package main

import (
	"flag"

	"github.com/psgrid/psg/agent"
	"github.com/psgrid/psg/agent/gpu"
)

// sourceOptions say what is measured beside the kernel's files.
type sourceOptions struct {
	nvml string
}

// off is what an option says to leave a source out.
const off = "off"

func (s *sourceOptions) define(flags *flag.FlagSet) {
	flags.StringVar(&s.nvml, "nvml", "", "`file` of NVIDIA's management library, or \"off\" (default: libnvidia-ml.so.1, as the loader finds it)")
}

// sources returns those that are asked for.
func (s *sourceOptions) sources(proc string) (out []agent.Source) {
	if s.nvml != off {
		out = append(out, gpu.New(gpu.Config{Library: s.nvml, Proc: proc}))
	}
	return out
}
