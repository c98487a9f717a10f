package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

type policy struct {
	config framework.Config[config]
}

func newPolicy(hclog.Logger) (qav1.QueueAdmission, error) { return &policy{}, nil }

// Decide goes along the queue once, and admits each backup that nothing is in the way of. The first reason that keeps one
// back is told: a window, then an overlap, then the quota of its team, then the limit.
func (p *policy) Decide(_ context.Context, snapshot *qav1.Snapshot) (*qav1.Decision, error) {
	c, err := p.config.Decode(snapshot.Config)
	if err != nil {
		return nil, err
	}
	d := decision{config: &c, now: c.Zone.in(snapshot.Now), limit: snapshot.Limit, free: snapshot.Free(), started: map[string][]string{}}
	for _, started := range [][]qav1.Backup{snapshot.Running, snapshot.Ready} {
		for i := range started {
			d.start(&started[i])
		}
	}
	for i := range snapshot.Queued {
		backup := &snapshot.Queued[i]
		wait := d.wait(backup)
		if wait == nil {
			d.Admit = append(d.Admit, backup.Name)
			d.free--
			d.start(backup)
			continue
		}
		wait.Name = backup.Name
		d.Waits = append(d.Waits, *wait)
		if wait.Reason != "Freeze" { // who waits for a window holds up nobody
			d.ahead.add(backup, "is ahead of it in the queue")
		}
	}
	return &d.Decision, nil
}

// decision is one in the making.
type decision struct {
	qav1.Decision
	config  *config
	now     time.Time // in the zone of the windows
	limit   int
	free    int                 // places
	ahead   claims              // of backups that have started, or wait ahead in the queue
	started map[string][]string // backups by team
}

// start takes what a backup needs that runs, or is about to.
func (d *decision) start(backup *qav1.Backup) {
	d.ahead.add(backup, "has started")
	team := d.config.team(backup.Labels)
	d.started[team] = append(d.started[team], backup.Name)
}

// wait is why a backup has to; nil when it does not.
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
			Message: fmt.Sprintf("team %s has a quota of %d, and %d of its backups have started", team, quota, len(d.started[team])),
		}
	}
	if d.free == 0 {
		return &qav1.Wait{Reason: "Limit", Message: fmt.Sprintf("the server's limit of %d is reached", d.limit)}
	}
	return nil
}

// recheck has the server ask again when the first window ends that somebody waits for.
func (d *decision) recheck(until time.Time) {
	after := max(time.Second, until.Sub(d.now))
	if d.RecheckAfter == 0 || after < d.RecheckAfter {
		d.RecheckAfter = after
	}
}
