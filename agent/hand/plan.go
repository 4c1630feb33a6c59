package hand

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	mib = 1 << 20
	// minQuota is the least CPU time in a period that the kernel takes, in
	// microseconds.
	minQuota = 1000
	// slack is room for what a group cannot give back, beyond what it holds of
	// that now: with none, it would be stuck, or killed, at once.
	slack = 4 * mib
)

func (p *planner) cpu(cores float64) error {
	if p.groups.Unified {
		file := filepath.Join(p.groups.CPU, "cpu.max")
		was, err := get(file, "")
		if err != nil {
			return err
		}
		quotaText, periodText, _ := strings.Cut(was, " ")
		period, err := strconv.ParseInt(periodText, 10, 64)
		if err != nil {
			return fmt.Errorf("%s holds %q", file, was)
		}
		if quota := quotaOf(cores, period); quota < limitOr(quotaText, unlimited) {
			p.add(Write{File: file, Was: was, Now: fmt.Sprintf("%d %d", quota, period)})
		}
		return nil
	}
	file := filepath.Join(p.groups.CPU, "cpu.cfs_quota_us")
	was, err := get(file, "")
	if err != nil {
		return err
	}
	text, err := get(filepath.Join(p.groups.CPU, "cpu.cfs_period_us"), "")
	if err != nil {
		return err
	}
	period, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s: period %q", file, text)
	}
	if quota := quotaOf(cores, period); quota < limitOr(was, unlimited) {
		p.add(Write{File: file, Was: was, Now: strconv.FormatInt(quota, 10)})
	}
	return nil
}

func quotaOf(cores float64, period int64) int64 {
	return max(minQuota, int64(cores*float64(period)))
}

// limitOr reads a limit as the kernel writes it: "max", "-1" and what is not a
// number are none.
func limitOr(text string, none int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return none
	}
	return n
}

func (p *planner) memory(limitMB int64) error {
	limit := limitMB * mib
	if p.groups.Unified {
		file := filepath.Join(p.groups.Memory, "memory.high")
		was, err := get(file, "")
		if err == nil && limit < limitOr(was, unlimited) {
			p.add(Write{File: file, Was: was, Now: strconv.FormatInt(limit, 10)})
		}
		return err
	}
	return p.memorySeparate(limit)
}

// memorySeparate limits on version 1, which has a hard limit only. What cannot be
// reclaimed stays below it, and for as long as it holds the kernel lets tasks wait
// at it instead of killing them.
func (p *planner) memorySeparate(limit int64) error {
	file := filepath.Join(p.groups.Memory, "memory.limit_in_bytes")
	was, err := get(file, "")
	if err != nil {
		return err
	}
	held, err := p.anonymous()
	if err != nil {
		return err
	}
	limit = max(limit, (held+held/8+slack)/mib*mib)
	if limit >= limitOr(was, unlimited) {
		return nil
	}
	wait := Write{File: filepath.Join(p.groups.Memory, oomControl), Now: "1"}
	if wait.Was, err = get(wait.File, wait.line()); err != nil {
		return err
	}
	p.add(wait)
	p.add(Write{File: file, Was: was, Now: strconv.FormatInt(limit, 10)})
	return nil
}

// anonymous is the memory of a version 1 group that has nowhere to go.
func (p *planner) anonymous() (int64, error) {
	file := filepath.Join(p.groups.Memory, "memory.stat")
	sum := int64(0)
	for _, key := range []string{"total_rss", "total_shmem", "total_unevictable"} {
		text, err := get(file, key)
		if err != nil {
			return 0, err
		}
		sum += limitOr(text, 0)
	}
	return sum, nil
}

func (p *planner) freezer() error {
	file, free, frozen := filepath.Join(p.groups.Freezer, "freezer.state"), "THAWED", "FROZEN"
	if p.groups.Unified {
		file, free, frozen = filepath.Join(p.groups.Freezer, "cgroup.freeze"), "0", "1"
	}
	was, err := get(file, "")
	if err != nil {
		return err
	}
	if was == "FREEZING" { // on its way, by somebody else's word
		was = frozen
	}
	if was != free && was != frozen {
		return fmt.Errorf("%s holds %q", file, was)
	}
	p.add(Write{File: file, Was: was, Now: frozen})
	return nil
}
