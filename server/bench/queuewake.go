package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	serverconfig "github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

const (
	wakeQueued = 200
	wakes      = 60 // of each run
)

// queueClient returns a client of the site for custom resources, without a rate limit, and its configuration.
func (s *site) queueClient() (client.WithWatch, *rest.Config, error) {
	scheme, err := app.Scheme()
	if err != nil {
		return nil, nil, err
	}
	config := rest.CopyConfig(s.client.Config())
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return c, config, err
}

// queueWakeOverBare reports the time from the end of a backup to ReadyToStart of the next, with 200 queued, divided by
// that of a bare program that watches Backups and writes to one when another has ended. It also reports the 99th
// percentile in milliseconds.
func queueWakeOverBare(ctx context.Context, s *site, report func(string, float64)) (err error) {
	c, config, err := s.queueClient()
	if err != nil {
		return err
	}
	bare, err := bareWakes(ctx, c)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	w := &wakeSite{client: c, config: config}
	stop, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := w.fill(ctx); err != nil {
		return err
	}
	var ratios, all []float64
	for run := range runs {
		took, err := w.wakes(ctx)
		if err != nil {
			return err
		}
		again, err := bareWakes(ctx, c)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		limit := median(append(slices.Clone(bare), again...))
		bare, all = again, append(all, took...)
		ratios = append(ratios, median(took)/limit)
		say("with %d queued, the next one is ready %.2f ms after the end of one; a bare watch and patch takes %.2f ms, "+
			"ratio %.2f", wakeQueued, median(took), limit, ratios[run])
	}
	slices.Sort(all)
	report("queue_wake_over_bare", median(ratios))
	report("queue_wake_ms_p99", all[len(all)*99/100])
	return nil
}

// wakeSite is a queue without a controller that runs backups; the benchmark takes its part.
type wakeSite struct {
	client client.WithWatch
	config *rest.Config
	count  int
}

// start runs the queue as the server does.
func (w *wakeSite) start(ctx context.Context) (stop func() error, err error) {
	host, err := pluginhost.New(ctx, pluginhost.Config{BuiltIns: app.BuiltIns(nil, nil), Log: hclog.NewNullLogger()})
	if err != nil {
		return nil, err
	}
	inForce, err := policy.New(&serverconfig.File{}, policy.Deps{Host: host, Log: hclog.NewNullLogger(), Now: time.Now})
	if err != nil {
		return nil, err
	}
	scheme, err := app.Scheme()
	if err != nil {
		return nil, err
	}
	ctrl.SetLogger(app.NewLogr(hclog.NewNullLogger()))
	mgr, err := ctrl.NewManager(w.config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{roundtrip.Namespace: {}}},
	})
	if err != nil {
		return nil, err
	}
	q := &backupqueue.Controller{
		Cluster:   &run.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: roundtrip.Namespace},
		Admission: inForce.Admission, Limit: 1, Events: mgr.GetEventRecorder("cleat"), Log: hclog.NewNullLogger(),
		Now:   time.Now,
		Exact: queue.DefaultExact(), Pace: backupqueue.DefaultPace(),
	}
	if err := q.Setup(ctrl.NewControllerManagedBy(mgr).Named("backup-queue").WithOptions(
		controller.Options{SkipNameValidation: new(true)},
	), nil).Complete(q); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() error {
		cancel()
		host.Close()
		return <-ended
	}, nil
}

func (w *wakeSite) create(ctx context.Context) (string, error) {
	w.count++
	name := fmt.Sprintf("wake-%04d", w.count)
	return name, w.client.Create(ctx, &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: name},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{fmt.Sprintf("n-%d", w.count%50)}},
	})
}

// fill creates backups, one more than are queued, and waits until one is ready and the others are queued.
func (w *wakeSite) fill(ctx context.Context) error {
	for w.count <= wakeQueued {
		if _, err := w.create(ctx); err != nil {
			return err
		}
	}
	for {
		var list velerov1.BackupList
		if err := w.client.List(ctx, &list, client.InNamespace(roundtrip.Namespace)); err != nil {
			return err
		}
		phases := map[velerov1.BackupPhase]int{}
		for i := range list.Items {
			phases[list.Items[i].Status.Phase]++
		}
		if phases[velerov1.BackupPhaseQueued] == wakeQueued && phases[velerov1.BackupPhaseReadyToStart] == 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// wakes ends backups one after another and returns how long each next one takes to be ready, in milliseconds. A new one
// keeps the length of the queue. Positions are still being written when the next backup ends.
func (w *wakeSite) wakes(ctx context.Context) ([]float64, error) {
	watch, err := w.client.Watch(ctx, &velerov1.BackupList{}, client.InNamespace(roundtrip.Namespace))
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	var took []float64
	ready, err := w.next(ctx, watch)
	if err != nil {
		return nil, err
	}
	for range wakes {
		if _, err := w.create(ctx); err != nil {
			return nil, err
		}
		running, err := w.move(ctx, ready, velerov1.BackupPhaseInProgress)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := w.move(ctx, running, velerov1.BackupPhaseCompleted); err != nil {
			return nil, err
		}
		if ready, err = w.next(ctx, watch); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds()*1000)
	}
	return took, nil
}

// next waits for a ready backup.
func (w *wakeSite) next(ctx context.Context, watch apiwatch.Interface) (*velerov1.Backup, error) {
	for event := range watch.ResultChan() {
		if b, ok := event.Object.(*velerov1.Backup); ok && b.Status.Phase == velerov1.BackupPhaseReadyToStart {
			return b, nil
		}
	}
	return nil, fmt.Errorf("the watch ended early: %w", context.Cause(ctx))
}

func (w *wakeSite) move(ctx context.Context, b *velerov1.Backup, phase velerov1.BackupPhase) (*velerov1.Backup, error) {
	after := b.DeepCopy()
	after.Status.Phase = phase
	return after, w.client.Patch(ctx, after, client.MergeFrom(b))
}

// bareWakes measures the minimum, in milliseconds: write to a Backup, receive it by a watch, write to another Backup,
// and receive that.
func bareWakes(ctx context.Context, c client.WithWatch) ([]float64, error) {
	const namespace = "default"
	watch, err := c.Watch(ctx, &velerov1.BackupList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	var pair [2]*velerov1.Backup
	for i := range pair {
		pair[i] = &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "bare-"}}
		if err := c.Create(ctx, pair[i]); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.Delete(ctx, pair[i])) }()
	}
	write := func(i, n int) error {
		after := pair[i].DeepCopy()
		after.Status.Phase = []velerov1.BackupPhase{velerov1.BackupPhaseCompleted, velerov1.BackupPhaseReadyToStart}[n%2]
		after.Labels = map[string]string{"n": fmt.Sprint(n)}
		err := c.Patch(ctx, after, client.MergeFromWithOptions(pair[i], client.MergeFromWithOptimisticLock{}))
		pair[i] = after
		return err
	}
	var took []float64
	for n := range wakes {
		began := time.Now()
		if err := write(0, n); err != nil {
			return nil, err
		}
		answered := false
		for event := range watch.ResultChan() {
			b, ok := event.Object.(*velerov1.Backup)
			if !ok || b.Labels["n"] != fmt.Sprint(n) {
				continue
			}
			if b.Name == pair[1].Name {
				break
			}
			if !answered {
				answered = true
				if err := write(1, n); err != nil {
					return nil, err
				}
			}
		}
		took = append(took, time.Since(began).Seconds()*1000)
	}
	slices.SortFunc(took, cmp.Compare[float64])
	return took, nil
}
