package run

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestDefaultLocation(t *testing.T) {
	t.Parallel()
	location := func(name string, created int64, isDefault bool) velerov1.BackupStorageLocation {
		return velerov1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Spec:       velerov1.BackupStorageLocationSpec{Default: isDefault},
		}
	}
	require.Equal(t, "fallback", DefaultLocation(nil, "fallback"))
	require.Equal(t, "fallback", DefaultLocation([]velerov1.BackupStorageLocation{location("a", 1, false)}, "fallback"))
	marked := []velerov1.BackupStorageLocation{location("a", 1, true), location("d", 9, false), location("b", 2, true),
		location("c", 2, true)}
	require.Equal(t, "c", DefaultLocation(marked, "fallback"))
	marked[0], marked[3] = marked[3], marked[0]
	require.Equal(t, "c", DefaultLocation(marked, "fallback"), "whatever the order of the list")
}

// reads holds the names of the locations that exist in a cache or an API server.
type reads struct {
	client.Client
	names []string
}

func (r reads) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	for _, name := range r.names {
		if name == key.Name {
			object.SetName(name)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "backupstoragelocations"}, key.Name)
}

func TestLocationThatTheCacheDoesNotHaveYet(t *testing.T) {
	t.Parallel()
	c := &Cluster{Client: reads{names: []string{"old"}}, Live: reads{names: []string{"old", "new"}}}
	for _, name := range []string{"old", "new"} {
		location, err := c.GetLocation(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, name, location.Name)
	}
	_, err := c.GetLocation(t.Context(), "none")
	require.ErrorIs(t, err, ErrLocationNotFound)
}
