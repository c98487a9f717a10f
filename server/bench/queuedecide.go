package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/kinds"

	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// queueDecideGrowth reports the time of one decision with 4,000 queued backups, divided by the time with 1,000. A
// decision builds the queue from the Backups, makes the snapshot, calls the default policy through the host, and plans
// the writes. There are 500 namespaces; each backup has four of them and may overlap any other; ten backups run.
func queueDecideGrowth(ctx context.Context, _ string, report func(string, float64)) error {
	host, err := pluginhost.New(ctx, pluginhost.Config{BuiltIns: app.BuiltIns(nil, nil), Log: hclog.NewNullLogger()})
	if err != nil {
		return err
	}
	defer host.Close()
	policy, err := pluginhost.Named(host, kinds.QueueAdmission(), config.DefaultAdmission)
	if err != nil {
		return err
	}
	var namespaces []string
	for i := range 500 {
		namespaces = append(namespaces, fmt.Sprintf("namespace-%03d", i))
	}
	small, large := manyBackups(1000, namespaces), manyBackups(4000, namespaces)
	decide := func(resolver *queue.Resolver, backups []*velerov1.Backup) error {
		now := time.Now()
		line := queue.NewLine(backups)
		decision, err := policy.Decide(ctx, resolver.Snapshot(line, namespaces, 20, now))
		if err == nil {
			queue.NewPlan(line, decision, policy.Name(), queue.DefaultExact(), now)
		}
		return err
	}
	// each returns the mean of the milliseconds of some decisions, including garbage collection.
	each := func(decisions int, resolver *queue.Resolver, backups []*velerov1.Backup) (float64, error) {
		runtime.GC()
		began := time.Now()
		for range decisions {
			if err := decide(resolver, backups); err != nil {
				return 0, err
			}
		}
		return time.Since(began).Seconds() * 1000 / float64(decisions), nil
	}
	var few, many queue.Resolver
	if err := errors.Join(decide(&few, small), decide(&many, large)); err != nil {
		return err // and the caches are filled
	}
	var ratios, smalls, larges []float64
	for run := range runs {
		ofSmall, err := each(80, &few, small)
		if err != nil {
			return err
		}
		ofLarge, err := each(20, &many, large)
		if err != nil {
			return err
		}
		smalls, larges = append(smalls, ofSmall), append(larges, ofLarge)
		ratios = append(ratios, ofLarge/ofSmall)
		say("a decision about 1,000 queued backups takes %.1f ms, about 4,000 %.1f ms, ratio %.2f", smalls[run], larges[run],
			ratios[run])
	}
	report("queue_decide_growth", median(ratios))
	report("queue_decide_ms_1000", median(smalls))
	report("queue_decide_ms_4000", median(larges))
	return nil
}

// manyBackups returns a number of queued backups, and ten running ones.
func manyBackups(queued int, namespaces []string) []*velerov1.Backup {
	var all []*velerov1.Backup
	created := metav1.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for i := range queued + 10 {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("backup-%04d", i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(i),
			CreationTimestamp: metav1.NewTime(created.Add(time.Duration(i) * time.Second)),
			Labels:            map[string]string{velerov1.ScheduleNameLabel: fmt.Sprintf("schedule-%d", i%50)},
		}}
		for k := range 4 {
			b.Spec.IncludedNamespaces = append(b.Spec.IncludedNamespaces, namespaces[(i*7+k*131)%len(namespaces)])
		}
		b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseQueued, i-9
		if i < 10 {
			b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseInProgress, 0
		}
		all = append(all, b)
	}
	return all
}
