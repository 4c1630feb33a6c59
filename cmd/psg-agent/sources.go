package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/psgrid/psg/agent"
	"github.com/psgrid/psg/agent/gpu"
	"github.com/psgrid/psg/agent/scrape"
	"github.com/psgrid/psg/agent/sensor"
)

// sourceOptions say what is measured beside the kernel's files.
type sourceOptions struct {
	nvml    string
	sensors bool
	scrapes []*scrape.Source
}

// off is what an option says to leave a source out.
const off = "off"

func (s *sourceOptions) define(flags *flag.FlagSet) {
	flags.StringVar(&s.nvml, "nvml", "", "`file` of NVIDIA's management library, or \"off\" (default: libnvidia-ml.so.1, as the loader finds it)")
	flags.BoolVar(&s.sensors, "sensors", true, "measure what the board's sensors and NVMe drives tell")
	flags.Func("scrape", "`NAME=URL` of a DCGM exporter or cAdvisor to ask, http or https; may be repeated", s.scrape)
}

func (s *sourceOptions) scrape(text string) error {
	name, url, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("it is not NAME=URL")
	}
	for _, other := range s.scrapes {
		if other.Name() == name {
			return fmt.Errorf("there are two named %q", name)
		}
	}
	source, err := scrape.New(scrape.Config{Name: name, URL: url})
	if err != nil {
		return err
	}
	s.scrapes = append(s.scrapes, source)
	return nil
}

// sources returns those that are asked for.
func (s *sourceOptions) sources(proc, sys string) (out []agent.Source) {
	if s.nvml != off {
		out = append(out, gpu.New(gpu.Config{Library: s.nvml, Proc: proc}))
	}
	if s.sensors {
		out = append(out, sensor.NewHwmon(sys), sensor.NewNVMe(sys, "/dev"))
	}
	for _, source := range s.scrapes {
		out = append(out, source)
	}
	return out
}
