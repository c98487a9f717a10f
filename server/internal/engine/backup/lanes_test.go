package backup_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// counting returns an action that counts its concurrent calls. Each call waits until there are as many as wanted.
func counting(name string, wanted int64, resources ...string) (*testAction, *atomic.Int64) {
	var present atomic.Int64
	most := &atomic.Int64{}
	var once sync.Once
	complete := make(chan struct{})
	return &testAction{name: name, selector: framework.ResourceSelector{IncludedResources: resources},
		execute: func(item []byte) (*backupitemaction.Result, error) {
			n := present.Add(1)
			defer present.Add(-1)
			for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
			}
			if n == wanted {
				once.Do(func() { close(complete) })
			}
			select {
			case <-complete:
				return &backupitemaction.Result{Item: item}, nil
			case <-time.After(time.Minute):
				return nil, errors.New("there are not enough calls at once")
			}
		}}, most
}

func TestConcurrentActionsGetSeveralCallsAtOnce(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	const name = "example.com/counting"
	spec := func(s *velerov1.BackupSpec) {
		s.IncludedNamespaces = []string{"shop-prod", "bank-prod", "bank1", "bank2", "bank10"}
	}
	for what, test := range map[string]struct {
		workers    int
		concurrent bool
		ordered    bool
		wanted     int64
	}{
		"as Velero does":     {wanted: 1},
		"with workers":       {workers: 3, wanted: 3},
		"concurrent":         {concurrent: true, wanted: 4},
		"in a certain order": {concurrent: true, ordered: true, wanted: 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			action, most := counting(name, test.wanted, "configmaps")
			deps := deps
			deps.Workers = test.workers
			request := backup.Request{Backup: newBackup(spec), Actions: []backupitemaction.Action{action}}
			if test.concurrent {
				request.Concurrency = map[string]int{name: 4}
			}
			if test.ordered {
				request.Backup.Spec.OrderedResources = map[string]string{"configmaps": "bank2/settings"}
			}
			b := take(t.Context(), t, deps, request)
			require.Zero(t, b.Errors, b.Results)
			require.Equal(t, test.wanted, most.Load())
		})
	}
}

// TestOtherActionsKeepTheirNumberOfCalls has additional items of concurrent blocks with an action that takes one call
// at a time.
func TestOtherActionsKeepTheirNumberOfCalls(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	one, most := counting("example.com/one", 1, "secrets", "serviceaccounts", "services", "persistentvolumes")
	var next atomic.Int64
	extra := []framework.ResourceIdentifier{
		id("", "secrets", "shop-prod", "password"), id("", "serviceaccounts", "shop-prod", "robot"),
		id("", "services", "shop-prod", "web"), id("", "persistentvolumes", "", "fixture-pv"),
	}
	several := &testAction{name: "example.com/several",
		selector: framework.ResourceSelector{IncludedResources: []string{"configmaps"}}}
	several.execute = func(item []byte) (*backupitemaction.Result, error) {
		i := next.Add(1)
		return &backupitemaction.Result{Item: item, AdditionalItems: extra[i%int64(len(extra)):][:1]}, nil
	}
	b := take(t.Context(), t, deps, backup.Request{
		Backup: only("shop-prod", "bank-prod", "bank1", "bank2", "bank10"), Actions: []backupitemaction.Action{several, one},
		Concurrency: map[string]int{"example.com/several": 8},
	})
	require.Zero(t, b.Errors, b.Results)
	require.EqualValues(t, 1, most.Load())
	require.Contains(t, one.calls, "fixture-pv")
}

// TestStartsWaitForTheJournalTogether has calls that wait until more of them are recorded than may run at once.
func TestStartsWaitForTheJournalTogether(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	const name, atOnce, recorded = "example.com/starting", 2, 6
	c := fake.NewClientBuilder().Build()
	journal := operation.NewJournals(c, c, "velero", signing.Fixed(signing.NewKey([]byte("of tests"))),
		hclog.NewNullLogger()).New(&operation.Owner{Kind: operation.OfBackup, Namespace: "velero", Name: "b", UID: "u"})
	starting, most := counting(name, atOnce, "configmaps")
	count := starting.execute
	starting.starts = versioning.Keyed
	starting.execute = func(item []byte) (*backupitemaction.Result, error) {
		for deadline := time.Now().Add(time.Minute); len(journal.Starts()) < recorded; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return nil, errors.New("there are not enough records")
			}
		}
		result, err := count(item)
		if result != nil {
			result.OperationID = identity(item)
		}
		return result, err
	}
	b := take(t.Context(), t, deps, backup.Request{
		Backup: only("shop-prod", "bank-prod", "bank1", "bank2", "bank10"), Actions: []backupitemaction.Action{starting},
		Concurrency: map[string]int{name: atOnce}, Journal: journal,
	})
	require.Zero(t, b.Errors, b.Results)
	require.EqualValues(t, atOnce, most.Load())
}
