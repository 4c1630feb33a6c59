package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

func putUpdate(_ *coder, u psg.Update) *psgv1.Update {
	return &psgv1.Update{
		MaxParallel:      int64(u.MaxParallel),
		Canary:           int64(u.Canary),
		HealthCheck:      u.HealthCheck,
		MinHealthy:       putDuration(u.MinHealthy),
		HealthyDeadline:  putDuration(u.HealthyDeadline),
		ProgressDeadline: putDuration(u.ProgressDeadline),
		Stagger:          putDuration(u.Stagger),
		AutoRevert:       u.AutoRevert,
		AutoPromote:      u.AutoPromote,
	}
}

func getUpdate(c *coder, u *psgv1.Update) psg.Update {
	return psg.Update{
		MaxParallel:      getInt(c, "max_parallel", u.GetMaxParallel()),
		Canary:           getInt(c, "canary", u.GetCanary()),
		HealthCheck:      u.GetHealthCheck(),
		MinHealthy:       getDuration(c, "min_healthy", u.GetMinHealthy()),
		HealthyDeadline:  getDuration(c, "healthy_deadline", u.GetHealthyDeadline()),
		ProgressDeadline: getDuration(c, "progress_deadline", u.GetProgressDeadline()),
		Stagger:          getDuration(c, "stagger", u.GetStagger()),
		AutoRevert:       u.GetAutoRevert(),
		AutoPromote:      u.GetAutoPromote(),
	}
}

func putMigrate(_ *coder, m psg.Migrate) *psgv1.Migrate {
	return &psgv1.Migrate{
		MaxParallel:     int64(m.MaxParallel),
		HealthCheck:     m.HealthCheck,
		MinHealthy:      putDuration(m.MinHealthy),
		HealthyDeadline: putDuration(m.HealthyDeadline),
	}
}

func getMigrate(c *coder, m *psgv1.Migrate) psg.Migrate {
	return psg.Migrate{
		MaxParallel:     getInt(c, "max_parallel", m.GetMaxParallel()),
		HealthCheck:     m.GetHealthCheck(),
		MinHealthy:      getDuration(c, "min_healthy", m.GetMinHealthy()),
		HealthyDeadline: getDuration(c, "healthy_deadline", m.GetHealthyDeadline()),
	}
}

func putReschedule(_ *coder, r psg.Reschedule) *psgv1.Reschedule {
	return &psgv1.Reschedule{
		Attempts:      int64(r.Attempts),
		Interval:      putDuration(r.Interval),
		Delay:         putDuration(r.Delay),
		DelayFunction: r.DelayFunc,
		MaxDelay:      putDuration(r.MaxDelay),
		Unlimited:     r.Unlimited,
	}
}

func getReschedule(c *coder, r *psgv1.Reschedule) psg.Reschedule {
	return psg.Reschedule{
		Attempts:  getInt(c, "attempts", r.GetAttempts()),
		Interval:  getDuration(c, "interval", r.GetInterval()),
		Delay:     getDuration(c, "delay", r.GetDelay()),
		DelayFunc: r.GetDelayFunction(),
		MaxDelay:  getDuration(c, "max_delay", r.GetMaxDelay()),
		Unlimited: r.GetUnlimited(),
	}
}

func putDisruption(_ *coder, d psg.Disruption) *psgv1.Disruption {
	return &psgv1.Disruption{MaxUnavailable: int64(d.MaxUnavailable), Order: string(d.Order)}
}

func getDisruption(c *coder, d *psgv1.Disruption) psg.Disruption {
	return psg.Disruption{
		MaxUnavailable: getInt(c, "max_unavailable", d.GetMaxUnavailable()),
		Order:          psg.MoveOrder(d.GetOrder()),
	}
}

func putDisconnect(_ *coder, d psg.Disconnect) *psgv1.Disconnect {
	return &psgv1.Disconnect{
		LostAfter: putDuration(d.LostAfter),
		StopAfter: putDuration(d.StopAfter),
		Replace:   d.Replace,
		Reconcile: d.Reconcile,
	}
}

func getDisconnect(c *coder, d *psgv1.Disconnect) psg.Disconnect {
	return psg.Disconnect{
		LostAfter: getDuration(c, "lost_after", d.GetLostAfter()),
		StopAfter: getDuration(c, "stop_after", d.GetStopAfter()),
		Replace:   d.GetReplace(),
		Reconcile: d.GetReconcile(),
	}
}

func putPeriodic(_ *coder, p psg.Periodic) *psgv1.Periodic {
	return &psgv1.Periodic{
		Enabled:         p.Enabled,
		Specs:           list(p.Specs),
		TimeZone:        p.TimeZone,
		ProhibitOverlap: p.ProhibitOverlap,
	}
}

func getPeriodic(_ *coder, p *psgv1.Periodic) psg.Periodic {
	return psg.Periodic{
		Enabled:         p.GetEnabled(),
		Specs:           list(p.GetSpecs()),
		TimeZone:        p.GetTimeZone(),
		ProhibitOverlap: p.GetProhibitOverlap(),
	}
}

func putParameterized(_ *coder, p psg.Parameterized) *psgv1.Parameterized {
	return &psgv1.Parameterized{
		Payload:      p.Payload,
		MetaRequired: list(p.MetaRequired),
		MetaOptional: list(p.MetaOptional),
	}
}

func getParameterized(_ *coder, p *psgv1.Parameterized) psg.Parameterized {
	return psg.Parameterized{
		Payload:      p.GetPayload(),
		MetaRequired: list(p.GetMetaRequired()),
		MetaOptional: list(p.GetMetaOptional()),
	}
}
