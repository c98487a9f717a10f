package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// TestRestoresAreShownAsWhatTheyWrite is the rule: a restore that runs is a backup of the objects that it may write.
func TestRestoresAreShownAsWhatTheyWrite(t *testing.T) {
	t.Parallel()
	const all, none = queueadmission.ClusterScopeAll, queueadmission.ClusterScopeNone
	for name, test := range map[string]struct {
		phase   velerov1.RestorePhase // InProgress if it is empty
		spec    velerov1.RestoreSpec
		scope   string
		want    *queueadmission.Backup
		spelled string // the spec
	}{
		"known": {
			scope:   `{"namespaces":["b","a"],"resources":["pods"]}`,
			want:    &queueadmission.Backup{Namespaces: []string{"a", "b"}, ClusterScope: none},
			spelled: `"includedResources":["pods"]`,
		},
		"cluster-scoped objects": {
			scope:   `{"resources":["storageclasses.storage.k8s.io"],"cluster":true}`,
			want:    &queueadmission.Backup{ClusterScope: all},
			spelled: `"includeClusterResources":true`,
		},
		"nothing": {scope: `{}`},
		"with operations": {phase: velerov1.RestorePhaseWaitingForPluginOperations,
			scope: `{"resources":["pods"],"namespaces":["a"]}`,
			want:  &queueadmission.Backup{Namespaces: []string{"a"}, ClusterScope: none}},
		"ended":     {phase: velerov1.RestorePhaseCompleted, scope: `{"resources":["pods"],"namespaces":["a"]}`},
		"not begun": {phase: velerov1.RestorePhaseNew},
		"unknown":   {want: &queueadmission.Backup{Namespaces: []string{"a", "c"}, AllNamespaces: true, ClusterScope: all}},
		"of some namespace": {spec: velerov1.RestoreSpec{IncludedNamespaces: []string{"x"},
			NamespaceMapping: map[string]string{"x": "y"}}, want: &queueadmission.Backup{Namespaces: []string{"y"},
			ClusterScope: all}},
		"of a pattern": {spec: velerov1.RestoreSpec{IncludedNamespaces: []string{"x", "a*"}},
			want: &queueadmission.Backup{Namespaces: []string{"a", "c"}, AllNamespaces: true, ClusterScope: all}},
		"changed by hand": {scope: `{"namespaces":`, want: &queueadmission.Backup{Namespaces: []string{"a", "c"},
			AllNamespaces: true, ClusterScope: all}},
		"null": {scope: `null`, want: &queueadmission.Backup{Namespaces: []string{"a", "c"}, AllNamespaces: true,
			ClusterScope: all}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: test.spec,
				Status: velerov1.RestoreStatus{Phase: test.phase}}
			if test.phase == "" {
				r.Status.Phase = velerov1.RestorePhaseInProgress
			}
			if test.scope != "" {
				r.Annotations = map[string]string{ScopeAnnotation: test.scope}
			}
			line := Line{Restoring: RunningRestores([]velerov1.Restore{r})}
			snapshot := new(Resolver).Snapshot(line, []string{"a", "c"}, 1, time.Now())
			require.Equal(t, 1, snapshot.Free(), "it holds no slot")
			if test.want == nil {
				require.Empty(t, snapshot.Restoring)
				return
			}
			require.Len(t, snapshot.Restoring, 1)
			got := snapshot.Restoring[0]
			require.Contains(t, string(got.Spec), test.spelled)
			require.Equal(t, "restores/r", got.Name)
			require.Equal(t, *test.want, queueadmission.Backup{Namespaces: got.Namespaces, AllNamespaces: got.AllNamespaces,
				ClusterScope: got.ClusterScope})
		})
	}
}

func TestScopeIsRecordedOnceAndIfItIsSmall(t *testing.T) {
	t.Parallel()
	r := &velerov1.Restore{}
	scope := Scope{Namespaces: []string{"a"}, Resources: []string{"pods"}}
	require.True(t, scope.Record(r))
	require.JSONEq(t, `{"namespaces":["a"],"resources":["pods"]}`, r.Annotations[ScopeAnnotation])
	require.False(t, scope.Record(r))
	scope.Namespaces = []string{strings.Repeat("a", maxScope)}
	require.False(t, scope.Record(r))
}
