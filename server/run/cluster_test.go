package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	marked := []velerov1.BackupStorageLocation{location("a", 1, true), location("d", 9, false), location("b", 2, true), location("c", 2, true)}
	require.Equal(t, "c", DefaultLocation(marked, "fallback"))
	marked[0], marked[3] = marked[3], marked[0]
	require.Equal(t, "c", DefaultLocation(marked, "fallback"), "whatever the order of the list")
}
