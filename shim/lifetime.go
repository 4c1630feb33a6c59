package shim

import (
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// span reads a duration, which must not be negative; a missing one is none.
func (t *translator) span(path string, d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	t.require(*d >= 0, path, "%v is negative", *d)
	return *d
}

// number reads a count of something, which must not be negative.
func (t *translator) number(path string, n *int) int {
	if n == nil {
		return 0
	}
	t.require(0 <= *n && *n <= maxCount, path, "%d is outside 0..%d", *n, int(maxCount))
	return *n
}

func (t *translator) update(path string, u *api.UpdateStrategy) *psg.Update {
	if u == nil {
		return nil
	}
	return &psg.Update{
		MaxParallel:      t.number(field(path, "MaxParallel"), u.MaxParallel),
		Canary:           t.number(field(path, "Canary"), u.Canary),
		HealthCheck:      *u.HealthCheck,
		MinHealthy:       t.span(field(path, "MinHealthyTime"), u.MinHealthyTime),
		HealthyDeadline:  t.span(field(path, "HealthyDeadline"), u.HealthyDeadline),
		ProgressDeadline: t.span(field(path, "ProgressDeadline"), u.ProgressDeadline),
		Stagger:          t.span(field(path, "Stagger"), u.Stagger),
		AutoRevert:       *u.AutoRevert,
		AutoPromote:      *u.AutoPromote,
	}
}

func (t *translator) migrate(path string, m *api.MigrateStrategy) *psg.Migrate {
	if m == nil {
		return nil
	}
	return &psg.Migrate{
		MaxParallel:     t.number(field(path, "MaxParallel"), m.MaxParallel),
		HealthCheck:     *m.HealthCheck,
		MinHealthy:      t.span(field(path, "MinHealthyTime"), m.MinHealthyTime),
		HealthyDeadline: t.span(field(path, "HealthyDeadline"), m.HealthyDeadline),
	}
}

func (t *translator) reschedule(path string, r *api.ReschedulePolicy) *psg.Reschedule {
	if r == nil {
		return nil
	}
	t.in(field(path, "DelayFunction"), *r.DelayFunction, "", "constant", "exponential", "fibonacci")
	return &psg.Reschedule{
		Attempts:  t.number(field(path, "Attempts"), r.Attempts),
		Interval:  t.span(field(path, "Interval"), r.Interval),
		Delay:     t.span(field(path, "Delay"), r.Delay),
		DelayFunc: *r.DelayFunction,
		MaxDelay:  t.span(field(path, "MaxDelay"), r.MaxDelay),
		Unlimited: *r.Unlimited,
	}
}

func (t *translator) disconnect(path string, d *api.DisconnectStrategy) *psg.Disconnect {
	if d == nil {
		return nil
	}
	t.in(field(path, "Reconcile"), *d.Reconcile, "", api.ReconcileOptionKeepOriginal, api.ReconcileOptionKeepReplacement,
		api.ReconcileOptionBestScore, api.ReconcileOptionLongestRunning)
	return &psg.Disconnect{
		LostAfter: t.span(field(path, "LostAfter"), d.LostAfter),
		StopAfter: t.span(field(path, "StopOnClientAfter"), d.StopOnClientAfter),
		Replace:   *d.Replace,
		Reconcile: *d.Reconcile,
	}
}

// periodic reads a cron schedule, whose expressions must parse.
func (t *translator) periodic(path string, p *api.PeriodicConfig) *psg.Periodic {
	if p == nil {
		return nil
	}
	read := &psg.Periodic{Enabled: *p.Enabled, TimeZone: *p.TimeZone, ProhibitOverlap: *p.ProhibitOverlap}
	t.in(field(path, "SpecType"), *p.SpecType, api.PeriodicSpecCron)
	_, err := p.GetLocation()
	t.require(err == nil, field(path, "TimeZone"), "unknown time zone %s", quote(*p.TimeZone))
	if *p.Spec != "" {
		t.require(len(p.Specs) == 0, field(path, "Specs"), "given beside Spec: a job has either")
		t.cron(field(path, "Spec"), *p.Spec)
		read.Specs = append(read.Specs, *p.Spec)
	}
	for i, spec := range p.Specs {
		t.cron(elem(field(path, "Specs"), i), spec)
		read.Specs = append(read.Specs, spec)
	}
	if read.Enabled {
		t.require(len(read.Specs) > 0, field(path, "Spec"), "is empty: a periodic job needs a cron expression")
		t.in(t.at("Type"), *t.job.Type, api.JobTypeBatch, api.JobTypeSysbatch)
	}
	return read
}

// maxCron bounds a cron expression, in bytes.
const maxCron = 1 << 10

// cron checks an expression with Nomad's own parser, which its API client keeps
// from panicking.
func (t *translator) cron(path, spec string) {
	if len(spec) > maxCron {
		t.fail(path, "%d bytes are more than %d", len(spec), maxCron)
		return
	}
	one := api.PeriodicConfig{Spec: &spec, SpecType: new(api.PeriodicSpecCron)}
	_, err := one.Next(time.Unix(0, 0).UTC())
	t.require(err == nil && spec != "", path, "not a cron expression: %s", quote(spec))
}

// parameterized reads what dispatching a job takes. A job that was dispatched
// already runs as any other.
func (t *translator) parameterized(path string, p *api.ParameterizedJobConfig) *psg.Parameterized {
	if p == nil || t.job.Dispatched {
		return nil
	}
	t.in(field(path, "Payload"), p.Payload, "", "optional", "required", "forbidden")
	required := map[string]bool{}
	for _, key := range p.MetaRequired {
		required[key] = true
	}
	for i, key := range p.MetaOptional {
		t.require(!required[key], elem(field(path, "MetaOptional"), i), "%s is required too", quote(key))
	}
	return &psg.Parameterized{Payload: p.Payload, MetaRequired: p.MetaRequired, MetaOptional: p.MetaOptional}
}
