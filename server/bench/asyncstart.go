package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

const (
	waiterName    = "bench.cleat.dev/waiter"
	startedAtOnce = 1000
	startTurns    = 15 // a turn takes a second, and the speed of the disk varies
)

// starting is the environment of asyncStartOverBare: objects for which an action starts operations, and the
// dependencies of a backup of them.
type starting struct {
	plugins  string // directory with the plugin
	deps     backup.Deps
	journals *operation.Journals
	item     []byte // one of the objects
}

// asyncStartOverBare reports the time of a backup of 1,000 objects, for each of which an action starts an operation,
// divided by the time of the same number of calls on a bare connection, from the same number of callers. The backup
// runs in this process, with the plugin host, the journal in the API server, and an archive that is discarded; the
// lists are part of its time. The plugin makes each start durable. A new process serves each measurement. The figure
// is the median of 15 turns.
func asyncStartOverBare(ctx context.Context, s *site, report func(string, float64)) error {
	b, err := s.newStarting(ctx)
	if err != nil {
		return err
	}
	var ratios []float64
	for n := range startTurns + 1 {
		ours, callers, err := b.engine(ctx, newBenchBackup(n))
		if err != nil {
			return err
		}
		bare, err := b.bare(ctx, newBenchBackup(n), callers)
		if err != nil {
			return err
		}
		if n == 0 {
			continue // warm-up
		}
		ratios = append(ratios, ours.Seconds()/bare.Seconds())
		say("%d starts, %d calls at once: backup %.3fs, bare calls %.3fs, ratio %.2f", startedAtOnce, callers, ours.Seconds(),
			bare.Seconds(), ratios[n-1])
	}
	report("async_start_over_bare", median(ratios))
	return nil
}

func newBenchBackup(n int) *velerov1.Backup {
	return &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: fmt.Sprint("run-", n),
			UID: types.UID(fmt.Sprint("run-", n))},
		Spec: velerov1.BackupSpec{
			IncludedNamespaces: []string{"starts"}, IncludedResources: []string{"configmaps"}, SnapshotVolumes: new(bool),
		},
	}
}

func (s *site) newStarting(ctx context.Context) (*starting, error) {
	b := &starting{plugins: s.PluginDir}
	if err := build(ctx, "waiter", filepath.Join(s.PluginDir, "waiter")); err != nil {
		return nil, err
	}
	if err := s.makeWaits(ctx, "starts", startedAtOnce, time.Hour); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(s.client.Config())
	config.QPS = -1
	d, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	b.deps = backup.Deps{Config: config, Discovery: discovery.New(d, hclog.NewNullLogger())}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	b.journals = operation.NewJournals(c, c, roundtrip.Namespace, signing.Fixed(signing.NewKey([]byte("of tests"))),
		hclog.NewNullLogger())
	b.item, err = d.RESTClient().Get().AbsPath("/api/v1/namespaces/starts/configmaps", waitName(0)).Do(ctx).Raw()
	return b, err
}

func waitName(i int) string { return fmt.Sprintf("wait-%04d", i) }

// makeWaits creates a namespace with config maps of 1 KiB for which the waiter starts operations of some length.
func (s *site) makeWaits(ctx context.Context, namespace string, n int, length time.Duration) error {
	say("creating %d objects", n)
	objects := []world.Object{{Resource: "namespaces", Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}}}
	for i := range n {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(configMap(waitName(i), smallItem)); err != nil {
			return err
		}
		o.SetNamespace(namespace)
		o.SetResourceVersion("")
		if err := unstructured.SetNestedField(o.Object, length.String(), "data", "wait"); err != nil {
			return err
		}
		objects = append(objects, world.Object{Resource: "configmaps", Unstructured: o})
	}
	return s.client.CreateBare(ctx, objects, world.Workers)
}

// engine returns the time of the backup and the number of its concurrent calls.
func (b *starting) engine(ctx context.Context, of *velerov1.Backup) (took time.Duration, callers int, err error) {
	state, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(state)
	host, err := pluginhost.New(ctx, pluginhost.Config{
		Dir: b.plugins, Environment: []string{hostapi.StateDirEnv + "=" + state}, Log: hclog.NewNullLogger(),
		Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return 0, 0, err
	}
	defer host.Close()
	session := host.Session("", hclog.NewNullLogger())
	defer session.Close()
	request := backup.Request{
		Backup: of, Actions: pluginhost.All(session, kinds.BackupItemActions()...), Concurrency: pluginhost.Concurrency(
			session, kinds.BackupItemActions()...,
		),
		Journal: b.journals.New(run.OwnerOfBackup(of)), Log: hclog.NewNullLogger(),
	}
	began := time.Now()
	result, err := backup.Run(ctx, b.deps, request, io.Discard)
	if err == nil {
		err = request.Journal.Flush(ctx)
	}
	took = time.Since(began)
	switch {
	case err != nil:
		return 0, 0, err
	case result.Errors > 0 || len(result.Operations) != startedAtOnce:
		return 0, 0, fmt.Errorf("the backup started %d operations, want %d: %v", len(result.Operations), startedAtOnce,
			result.Results)
	}
	return took, request.Concurrency[waiterName], b.journals.Delete(ctx, of.UID)
}

// bare returns the time of the calls alone.
func (b *starting) bare(ctx context.Context, of *velerov1.Backup, callers int) (time.Duration, error) {
	state, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(state)
	command := exec.Command(filepath.Join(b.plugins, "waiter"))
	command.Env = append(os.Environ(), hostapi.StateDirEnv+"="+state)
	process, conn, err := startBare(command)
	if err != nil {
		return 0, err
	}
	defer process.Kill()
	actions, owner := asyncbackupitemactionv1.NewAsyncBackupItemActionServiceClient(conn), run.OwnerOfBackup(of)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(callers)
	for n := range startedAtOnce {
		group.Go(func() error {
			reply, err := actions.Start(ctx, &asyncbackupitemactionv1.StartRequest{
				Plugin: waiterName, Item: b.item, Backup: owner.JSON,
				Key: fmt.Sprintf("%s/PersistentVolumeClaim/starts/%d", of.UID, n),
			})
			if err == nil && reply.GetOperationId() == "" {
				err = errors.New("the operation is missing")
			}
			return err
		})
	}
	err = group.Wait()
	return time.Since(began), err
}
