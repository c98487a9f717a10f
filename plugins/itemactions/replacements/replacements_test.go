package replacements_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/replacements"
)

func settings(data map[string]string) replacements.ReadSettings {
	return func(context.Context, string) (map[string]string, error) { return data, nil }
}

func exist(names ...string) replacements.ClassExists {
	return func(_ context.Context, name string) (bool, error) {
		for _, existing := range names {
			if name == existing {
				return true, nil
			}
		}
		return false, nil
	}
}

func claim(class string) string {
	return `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"data"},"spec":{` +
		class + `}}`
}

func set(classes ...string) string {
	text := `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"namespace":"shop","name":"db"},"spec":{"volumeClaimTemplates":[`
	for i, class := range classes {
		if i > 0 {
			text += ","
		}
		text += `{"metadata":{"name":"data"},"spec":{` + class + `}}`
	}
	return text + "]}}"
}

func TestStorageClassesAreReplaced(t *testing.T) {
	t.Parallel()
	action, err := replacements.NewStorageClass(settings(map[string]string{"old": "new", "lost": "nowhere"}), exist("new"))
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims", "persistentvolumes",
		"statefulsets"}}, selector)
	for name, row := range map[string]actiontest.Restore{
		"claim":  {Item: claim(`"storageClassName":"old"`), Want: claim(`"storageClassName":"new"`)},
		"volume": {Item: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"storageClassName":"old"}}`, Want: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"storageClassName":"new"}}`},
		"templates": {Item: set(`"storageClassName":"old"`, `"storageClassName":"other"`, ``),
			Want: set(`"storageClassName":"new"`, `"storageClassName":"other"`, ``)},
		"not mapped":   {Item: claim(`"storageClassName":"other"`)},
		"none":         {Item: claim(``)},
		"empty":        {Item: claim(`"storageClassName":""`)},
		"no templates": {Item: `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{}}`},
		"missing": {Item: claim(`"storageClassName":"lost"`),
			Err: `spec.storageClassName: the ConfigMap of velero.io/change-storage-class replaces "lost" by "nowhere", which does not exist in the cluster; create it, or name another`},
		"foreign": {Item: claim(`"storageClassName":7`), Err: "spec.storageClassName is a number, want a string"},
		"foreign in list": {Item: set(``, `"storageClassName":[]`),
			Err: "spec.volumeClaimTemplates[1].spec.storageClassName is a list, want a string"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, set(`"storageClassName":"old"`), velerov1.RestoreSpec{})
}

func workload(kind, podSpec string) string {
	spec := podSpec
	switch kind {
	case "Pod":
	case "CronJob":
		spec = `{"jobTemplate":{"spec":{"template":{"spec":` + podSpec + `}}}}`
	default:
		spec = `{"template":{"spec":` + podSpec + `}}`
	}
	return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{"namespace":"shop","name":"web"},"spec":` + spec + `}`
}

func TestImagesAreReplaced(t *testing.T) {
	t.Parallel()
	action, err := replacements.NewImage(settings(map[string]string{
		"a": " 1.1.1.1:5000 , 2.2.2.2:3000 ", "b": "1.1.1.1,never", "c": "no comma", "d": ",empty", "e": "empty,",
		"f": "web:v1,web:v2",
	}))
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{
		"deployments", "statefulsets", "daemonsets", "replicasets", "replicationcontrollers", "jobs", "cronjobs", "pods",
	}}, selector)
	const before = `{"initContainers":[{"image":"1.1.1.1:5000/init"}],"containers":[{"image":"1.1.1.1:5000/web:v1"},{"image":"web:v1"},{"name":"none"},{"image":"other"}]}`
	const after = `{"initContainers":[{"image":"2.2.2.2:3000/init"}],"containers":[{"image":"2.2.2.2:3000/web:v1"},{"image":"web:v2"},{"name":"none"},{"image":"other"}]}`
	rows := map[string]actiontest.Restore{
		"nothing to replace": {Item: workload("Pod", `{"containers":[{"image":"other"}]}`)},
		"foreign": {Item: workload("Deployment", `{"containers":[{},{"image":7}]}`),
			Err: "spec.template.spec.containers[1].image is a number, want a string"},
	}
	for _, kind := range []string{"Pod", "CronJob", "Job", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet",
		"ReplicationController"} {
		rows[kind] = actiontest.Restore{Item: workload(kind, before), Want: workload(kind, after)}
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, workload("CronJob", before), velerov1.RestoreSpec{})
}

// TestSettingsAreReadOncePerRestore: a request per item would slow down each restore, also one that replaces nothing.
func TestSettingsAreReadOncePerRestore(t *testing.T) {
	t.Parallel()
	reads, failing := 0, true
	action, err := replacements.NewImage(func(_ context.Context, action string) (map[string]string, error) {
		require.Equal(t, "velero.io/change-image-name", action)
		reads++
		if failing {
			return nil, errors.New("two of them")
		}
		return nil, nil
	})
	require.NoError(t, err)
	item := &unstructured.Unstructured{Object: map[string]any{"kind": "Pod"}}
	execute := func(uid string) error {
		restore := &velerov1.Restore{}
		restore.UID = types.UID(uid)
		_, err := action.Execute(t.Context(), &riav1.ExecuteInput{Item: item, ItemFromBackup: item, Restore: restore})
		return err
	}
	require.EqualError(t, execute("1"), "the ConfigMap that configures velero.io/change-image-name: two of them")
	failing = false
	for _, uid := range []string{"1", "1", "2", "1", "2"} {
		require.NoError(t, execute(uid))
	}
	require.Equal(t, 3, reads, "once that failed, and once per restore")
}
