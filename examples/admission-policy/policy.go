package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

type policy struct {
	config config
	zone   *time.Location // of the windows
}

// newPolicy makes the policy of one configuration.
func newPolicy(_ context.Context, setup *framework.Setup) (qav1.QueueAdmission, error) {
	c := framework.Config[config](setup)
	zone, err := c.zone()
	return &policy{config: c, zone: zone}, err
}

// Decide goes through the queue once, and admits each backup that may start. The first reason that applies makes a
// backup wait: a window, an overlap, the quota of its team, the limit.
func (p *policy) Decide(_ context.Context, input *qav1.DecideInput) (*qav1.DecideOutput, error) {
	d := decision{config: &p.config, now: input.Now.In(p.zone), limit: input.Limit, free: input.Free(),
		started: map[string][]string{}}
	for _, started := range [][]qav1.Backup{input.Running, input.Ready} {
		for i := range started {
			d.start(&started[i])
		}
	}
	for i := range input.Queued {
		backup := &input.Queued[i]
		wait := d.wait(backup)
		if wait == nil {
			d.Admit = append(d.Admit, backup.Name)
			d.free--
			d.start(backup)
			continue
		}
		wait.Name = backup.Name
		d.Waits = append(d.Waits, *wait)
		if wait.Reason != "Freeze" { // a backup that waits for a window delays no other
			d.ahead.add(backup, "is ahead of it in the queue")
		}
	}
	return &d.DecideOutput, nil
}

// decision is a decision while it is being made.
type decision struct {
	qav1.DecideOutput
	config  *config
	now     time.Time // in the zone of the windows
	limit   int
	free    int                 // backups that may still be admitted
	ahead   claims              // of backups that have started, or wait ahead in the queue
	started map[string][]string // backups by team
}

// start records a backup that runs, or is about to run.
func (d *decision) start(backup *qav1.Backup) {
	d.ahead.add(backup, "has started")
	team := d.config.team(backup.Labels)
	d.started[team] = append(d.started[team], backup.Name)
}

// wait returns why a backup has to wait, or nil if it may start.
func (d *decision) wait(backup *qav1.Backup) *qav1.Wait {
	if until := d.config.frozen(backup, d.now); !until.IsZero() {
		d.recheck(until)
		return &qav1.Wait{Reason: "Freeze", Message: "in a freeze window until " + until.Format("Mon 15:04 MST")}
	}
	if blocker, namespace := d.ahead.of(backup); blocker != nil {
		wait := &qav1.Wait{Reason: "NamespaceOverlap", Blockers: []string{blocker.backup.Name}}
		if namespace == "" {
			wait.Message = fmt.Sprintf("may share namespaces with %s, which %s", blocker.backup.Name, blocker.state)
		} else {
			wait.Message = fmt.Sprintf("shares namespace %s with %s, which %s", namespace, blocker.backup.Name, blocker.state)
			wait.Namespaces = []string{namespace}
		}
		return wait
	}
	team := d.config.team(backup.Labels)
	if quota := d.config.Quota.of(team); quota > 0 && len(d.started[team]) >= quota {
		return &qav1.Wait{
			Reason: "TeamQuota", Blockers: d.started[team],
			Message: fmt.Sprintf("team %s has a quota of %d, and %d of its backups have started", team, quota,
				len(d.started[team])),
		}
	}
	if d.free == 0 {
		return &qav1.Wait{Reason: "Limit", Message: fmt.Sprintf("the server's limit of %d is reached", d.limit)}
	}
	return nil
}

// recheck requests another call of the server when the first window ends for which a backup waits.
func (d *decision) recheck(until time.Time) {
	after := max(time.Second, until.Sub(d.now))
	if d.RecheckAfter == 0 || after < d.RecheckAfter {
		d.RecheckAfter = after
	}
}
