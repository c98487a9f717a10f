package plan

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

func TestUnpacksWhatTheFiltersSelect(t *testing.T) {
	t.Parallel()
	configMaps := schema.GroupResource{Resource: "configmaps"}
	present := []string{"shop", "shop-test", "other", "velero"}
	var packed bytes.Buffer
	w, err := archive.NewWriter(&packed, time.Now())
	require.NoError(t, err)
	for _, namespace := range present {
		for _, gr := range []schema.GroupResource{configMaps, dataUploadsResource} {
			require.NoError(t, w.Item(gr, "v1", true, namespace, "one", []byte("{}")))
		}
	}
	require.NoError(t, w.Close())
	backup, err := archive.Open(t.Context(), &packed, t.TempDir(), archive.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backup.Close()) })
	for _, includes := range [][]string{nil, {"*"}, {"shop"}, {"shop*"}, {"none-*"}, {"shop", "missing"}, {"*", "shop"}} {
		for _, excludes := range [][]string{nil, {"shop"}, {"*-test"}, {"shop*"}, {"missing"}} {
			restore := &velerov1.Restore{}
			restore.Spec.IncludedNamespaces, restore.Spec.ExcludedNamespaces = includes, excludes
			selection, err := NewSelection(restore, filter.RuleLists{}, backup, new(discovery.Snapshot))
			if err != nil {
				continue // it is not restored
			}
			unpacks := Unpacks(&restore.Spec)
			for _, gr := range backup.Resources() {
				for e := range backup.Items(gr) {
					require.Equal(t, selection.Selects(e), unpacks == nil || unpacks(gr, e.Namespace), "%v but %v: %s", includes,
						excludes, e.Path())
				}
			}
		}
	}
	require.True(t, Unpacks(&velerov1.RestoreSpec{IncludedNamespaces: []string{"shop"}})(configMaps, ""))
}
