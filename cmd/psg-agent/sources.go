package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/psgrid/psg/agent"
	"github.com/psgrid/psg/agent/gpu"
	"github.com/psgrid/psg/agent/scrape"
	"github.com/psgrid/psg/agent/sensor"
	"github.com/psgrid/psg/agent/sensor/ipmi"
)

// sourceOptions say what is measured beside the kernel's files.
type sourceOptions struct {
	nvml    string
	sensors bool
	ipmi    struct{ address, user, password string }
	scrapes []*scrape.Source
	taken   []agent.Source // by take
}

// off is what an option says to leave a source out.
const off = "off"

func (s *sourceOptions) define(flags *flag.FlagSet) {
	flags.StringVar(&s.nvml, "nvml", "", "`file` of NVIDIA's management library, or \"off\" (default: libnvidia-ml.so.1, as the loader finds it)")
	flags.BoolVar(&s.sensors, "sensors", true, "measure what the board's sensors and NVMe drives tell")
	flags.StringVar(&s.ipmi.address, "ipmi", "", "`address` of the node's management controller: \"local\" for /dev/ipmi0, or HOST[:PORT]")
	flags.StringVar(&s.ipmi.user, "ipmi-user", "", "`name` of a user there")
	flags.StringVar(&s.ipmi.password, "ipmi-password", "", "`file` of that user's password, which its owner alone can read")
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

// take makes those that are asked for.
func (s *sourceOptions) take(proc, sys string) error {
	if s.nvml != off {
		s.taken = append(s.taken, gpu.New(gpu.Config{Library: s.nvml, Proc: proc, Sys: sys}))
	}
	if s.sensors {
		s.taken = append(s.taken, sensor.NewHwmon(sys), sensor.NewNVMe(sys, "/dev"))
	}
	if s.ipmi.address != "" {
		controller, err := s.controller()
		if err != nil {
			return err
		}
		s.taken = append(s.taken, controller)
	}
	for _, source := range s.scrapes {
		s.taken = append(s.taken, source)
	}
	return nil
}

// maxSecret is longer than any password that IPMI takes.
const maxSecret = 256

// readSecret reads a file of one line that nobody else may read.
func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s can be read by others: its mode is %s", path, info.Mode().Perm())
	case info.Size() > maxSecret:
		return "", fmt.Errorf("%s has more than %d bytes", path, maxSecret)
	}
	text, err := os.ReadFile(path)
	return strings.TrimRight(string(text), "\r\n"), err
}

// controller is the node's management controller.
func (s *sourceOptions) controller() (*ipmi.Source, error) {
	config := ipmi.Config{Address: s.ipmi.address, User: s.ipmi.user}
	if s.ipmi.password != "" {
		password, err := readSecret(s.ipmi.password)
		if err != nil {
			return nil, fmt.Errorf("password of the management controller: %w", err)
		}
		config.Password = password
	}
	return ipmi.New(config)
}
