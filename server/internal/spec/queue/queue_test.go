package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// backup returns a backup that is age minutes old at noon.
func backup(name string, phase velerov1.BackupPhase, position, age int, namespaces ...string) *velerov1.Backup {
	return &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(age) * time.Minute))},
		Spec:   velerov1.BackupSpec{IncludedNamespaces: namespaces},
		Status: velerov1.BackupStatus{Phase: phase, QueuePosition: position},
	}
}

func deleted(b *velerov1.Backup) *velerov1.Backup {
	b.DeletionTimestamp = new(metav1.NewTime(noon))
	return b
}

func names(backups []*velerov1.Backup) []string {
	var all []string
	for _, b := range backups {
		all = append(all, b.Name)
	}
	return all
}

func TestNewLineSortsBackups(t *testing.T) {
	t.Parallel()
	line := queue.NewLine([]*velerov1.Backup{
		backup("new-2", "", 0, 1), backup("new-1", "New", 7, 2),
		backup("second", "Queued", 2, 9), backup("first", "Queued", 1, 5), backup("same, younger", "Queued", 2, 8),
		backup("far away", "Queued", 1_000_000_000, 50), backup("negative", "Queued", -1, 20), backup("zero", "Queued", 0,
			30),
		deleted(backup("deleted", "Queued", 3, 3)), deleted(backup("deleted, too", "New", 0, 3)),
		backup("ready", "ReadyToStart", 0, 3), deleted(backup("never starts", "ReadyToStart", 0, 3)),
		backup("runs", "InProgress", 0, 3), backup("runs longer", "InProgress", 0, 4),
		deleted(backup("still runs", "InProgress", 0, 2)),
		backup("done", "Completed", 0, 3), backup("waits for others", "WaitingForPluginOperations", 0, 3), backup("ends",
			"Finalizing", 0, 3),
		backup("invalid", "FailedValidation", 0, 3), backup("goes", "Deleting", 0, 3),
	})
	require.Equal(t, []string{"first", "second", "same, younger", "far away", "zero", "negative", "new-1", "new-2"},
		names(line.Queued))
	require.Equal(t, []string{"ready"}, names(line.Ready))
	require.Equal(t, []string{"runs longer", "runs", "still runs"}, names(line.Running))
}

func TestSnapshotResolvesNamespaces(t *testing.T) {
	t.Parallel()
	existing := []string{"shop-b", "default", "shop-a"}
	yes, no := true, false
	for name, test := range map[string]struct {
		spec       velerov1.BackupSpec
		namespaces []string
		all        bool
		scope      queueadmission.ClusterScope
	}{
		"everything": {velerov1.BackupSpec{}, []string{"default", "shop-a", "shop-b"}, true, queueadmission.ClusterScopeAll},
		"a star": {velerov1.BackupSpec{IncludedNamespaces: []string{"*"}},
			[]string{"default", "shop-a", "shop-b"}, true, queueadmission.ClusterScopeAll},
		"all but some": {velerov1.BackupSpec{ExcludedNamespaces: []string{"shop-*"}}, []string{"default"}, true,
			queueadmission.ClusterScopeRelated},
		"names, some missing": {velerov1.BackupSpec{IncludedNamespaces: []string{"shop-z", "default", "default"}},
			[]string{"default", "shop-z"}, false, queueadmission.ClusterScopeRelated},
		"a pattern": {velerov1.BackupSpec{IncludedNamespaces: []string{"shop-*"},
			ExcludedNamespaces: []string{"shop-b"}}, []string{"shop-a"}, false, queueadmission.ClusterScopeRelated},
		"an unused pattern": {velerov1.BackupSpec{IncludedNamespaces: []string{"x*"}}, nil, false,
			queueadmission.ClusterScopeRelated},
		"an invalid pattern": {velerov1.BackupSpec{IncludedNamespaces: []string{"[", "default"}}, []string{"default"},
			false, queueadmission.ClusterScopeRelated},
		"no namespace": {velerov1.BackupSpec{IncludedNamespaces: []string{""}}, nil, false,
			queueadmission.ClusterScopeRelated},
		"with cluster scope": {velerov1.BackupSpec{IncludedNamespaces: []string{"default"}, IncludeClusterResources: &yes},
			[]string{"default"}, false, queueadmission.ClusterScopeAll},
		"without cluster scope": {velerov1.BackupSpec{IncludeClusterResources: &no}, []string{"default", "shop-a", "shop-b"},
			true, queueadmission.ClusterScopeNone},
		"without, new filter": {velerov1.BackupSpec{ExcludedClusterScopedResources: []string{"*"}},
			[]string{"default", "shop-a", "shop-b"}, true, queueadmission.ClusterScopeNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := backup("b", "Queued", 1, 1)
			b.Spec = test.spec
			snapshot := new(queue.Resolver).Snapshot(queue.Line{Queued: []*velerov1.Backup{b}}, existing, 1, noon)
			require.Equal(t, test.namespaces, snapshot.Queued[0].Namespaces)
			require.Equal(t, test.all, snapshot.Queued[0].AllNamespaces)
			require.Equal(t, test.scope, snapshot.Queued[0].ClusterScope)
		})
	}
}

func TestResolverNoticesChanges(t *testing.T) {
	t.Parallel()
	var resolver queue.Resolver
	b := backup("b", "Queued", 1, 1, "shop-*")
	seen := func(namespaces ...string) []string {
		return resolver.Snapshot(queue.Line{Queued: []*velerov1.Backup{b}}, namespaces, 1, noon).Queued[0].Namespaces
	}
	require.Equal(t, []string{"shop-a"}, seen("shop-a"))
	require.Equal(t, []string{"shop-a", "shop-b"}, seen("shop-b", "shop-a"), "a namespace was added")
	require.Nil(t, seen(), "all were deleted")
	b.Spec.IncludedNamespaces = []string{"other"}
	require.Equal(t, []string{"other"}, seen(), "the spec was changed")
	b = backup("b", "Queued", 1, 1, "new")
	b.UID = "another"
	require.Equal(t, []string{"new"}, seen(), "another one of its name")
}

func TestPlanContainsOnlyChanges(t *testing.T) {
	t.Parallel()
	waiting := func(name string) queueadmission.Waiting {
		return queueadmission.Waiting{Name: name, Reason: "Limit", Message: "the limit is reached"}
	}
	a, b, c := backup("a", "Queued", 1, 3), backup("b", "Queued", 2, 2), backup("c", "New", 0, 1)
	line := queue.NewLine([]*velerov1.Backup{a, b, c})
	decision := &queueadmission.Decision{Admit: []string{"a"}, Waiting: []queueadmission.Waiting{waiting("b"),
		waiting("c")}}
	plan := queue.NewPlan(line, decision, "example.io/policy", queue.DefaultExact(), noon)
	require.Equal(t, []string{"a"}, names(plan.Admit))
	require.Len(t, plan.Place, 2)
	for i, placement := range plan.Place {
		require.Equal(t, i+1, placement.Position)
		require.True(t, placement.Announce)
		require.NoError(t, placement.Apply(placement.Backup))
	}
	queue.Admit(a)
	require.Equal(t, velerov1.BackupPhaseReadyToStart, a.Status.Phase)
	require.Zero(t, a.Status.QueuePosition)

	line = queue.NewLine([]*velerov1.Backup{a, b, c})
	again := &queueadmission.Decision{Waiting: decision.Waiting}
	require.Empty(t, queue.NewPlan(line, again, "example.io/policy", queue.DefaultExact(), noon.Add(time.Hour)).Place,
		"they say so already")

	again.Waiting[1].Message = "the limit is still reached"
	later := queue.NewPlan(line, again, "example.io/policy", queue.DefaultExact(), noon.Add(time.Hour)).Place
	require.Len(t, later, 1)
	require.False(t, later[0].Announce, "a new message needs no event")
	require.True(t, later[0].Wait.Since.Equal(new(metav1.NewTime(noon))), "it waits for the same reason since then")

	c.Annotations[velerov1.QueueWaitAnnotation] = "{"
	require.Len(t, queue.NewPlan(line, decision, "example.io/policy", queue.DefaultExact(), noon).Place, 1,
		"what cannot be read is written anew")

	held := queue.Hold(line, "PolicyFailed", "nothing is decided", queue.DefaultExact(), noon)
	require.Empty(t, held.Admit)
	require.Len(t, held.Place, 2)
	require.Equal(t, "PolicyFailed", held.Place[0].Wait.Reason)
	require.Equal(t, []string{"b 1", "c 2"}, []string{
		fmt.Sprint(held.Place[0].Backup.Name, " ", held.Place[0].Position), fmt.Sprint(held.Place[1].Backup.Name, " ",
			held.Place[1].Position),
	})
}
