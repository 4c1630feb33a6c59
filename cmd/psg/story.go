package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/examples"
)

// scene is one example job and how it must come to stand.
type scene struct {
	job  string
	want psg.State
	wait time.Duration
}

// tell submits the examples one after another and says what becomes of each:
// inference and a service are granted, training is denied beside inference, a
// job of 64 cards is queued; then an inference instance ends, and the denied
// training is granted.
func tell(ctx context.Context, decider *controller.Controller, node cluster, out io.Writer) error {
	story := narrator{decider, node, out}
	err := until(ctx, 40*time.Second, "the node is ready", func() (bool, error) {
		nodes := decider.Snapshot().Nodes
		return len(nodes) > 0 && nodes[0].Ready, nil
	})
	if err != nil {
		return err
	}
	for _, scene := range []scene{
		{"inference", psg.Running, 20 * time.Second},
		{"gated-service", psg.Running, 20 * time.Second},
		{"training", psg.Denied, 20 * time.Second},
		{"big", psg.Queued, 20 * time.Second},
	} {
		if err := story.show(ctx, scene); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "==> inference is scaled to 2: its instances no longer stand in training's way")
	if err := node.Scale(ctx, "inference", 2); err != nil {
		return err
	}
	return story.await(ctx, scene{"training", psg.Running, 20 * time.Second})
}

type narrator struct {
	decider *controller.Controller
	node    cluster
	out     io.Writer
}

// show submits a job and waits until it stands as it should.
func (n narrator) show(ctx context.Context, s scene) error {
	job, err := examples.Jobs.ReadFile(s.job + ".nomad.json")
	if err != nil {
		return err
	}
	if err := n.node.Submit(ctx, job); err != nil {
		return fmt.Errorf("submit %s: %w", s.job, err)
	}
	return n.await(ctx, s)
}

func (n narrator) await(ctx context.Context, s scene) error {
	var stand []psg.AskStatus
	err := until(ctx, s.wait, fmt.Sprintf("%s is %s", s.job, s.want), func() (bool, error) {
		stand = n.of(s.job)
		for _, status := range stand {
			if status.State != s.want || s.want == psg.Running && len(processes(status.Ask.Alloc)) == 0 {
				return false, nil
			}
		}
		return len(stand) == n.count(s.job), nil
	})
	for _, status := range stand {
		n.line(status)
	}
	return err
}

// of returns how the instances of a job stand, those that are over left out.
func (n narrator) of(job string) []psg.AskStatus {
	var stand []psg.AskStatus
	for _, status := range n.decider.Asks() {
		if status.Ask.Workload.Job == job && !status.Over() {
			stand = append(stand, status)
		}
	}
	return stand
}

// count is how many instances a job wants; -1 until the job is known.
func (n narrator) count(job string) int {
	for _, workload := range n.decider.Snapshot().Workloads {
		if workload.ID.Job == job {
			return workload.Count
		}
	}
	return -1
}

func (n narrator) line(s psg.AskStatus) {
	fmt.Fprintf(n.out, "%-14s %.8s  ", s.Ask.Workload.Job, s.Ask.Alloc)
	switch {
	case s.Placement != nil:
		fmt.Fprintf(n.out, "granted on %.8s", s.Placement.Node)
		for _, share := range s.Placement.Devices {
			fmt.Fprintf(n.out, ", card %s", share.Device)
		}
		for _, process := range processes(s.Ask.Alloc) {
			fmt.Fprintf(n.out, "; %s: %s", s.State, process)
		}
	case s.Refusal != nil:
		fmt.Fprintf(n.out, "%s: %s", s.State, s.Refusal.Summary)
	default:
		fmt.Fprint(n.out, s.State)
	}
	fmt.Fprintln(n.out)
}

// processes lists the running processes of an allocation as "pid 12 /bin/sleep
// 60", by the environment they were given.
func processes(alloc psg.AllocID) []string {
	var found []string
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		environ, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(environ, []byte("NOMAD_ALLOC_ID="+string(alloc)+"\x00")) {
			continue
		}
		dir := filepath.Dir(name)
		command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(command) == 0 || strings.Contains(string(command), "executor") {
			continue // a zombie, or what watches over the process
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		found = append(found, fmt.Sprintf("pid %d %s", pid, bytes.TrimRight(bytes.ReplaceAll(command, []byte{0}, []byte{' '}), " ")))
	}
	return found
}
