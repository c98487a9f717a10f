package runs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestCutNameLeavesRoomForUUID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", cutName("short"))
	require.Len(t, cutName(strings.Repeat("x", 253))+"-"+"00000000-0000-0000-0000-000000000000", 253)
}

func TestObjectAssignRefusesOtherKind(t *testing.T) {
	t.Parallel()
	b := &velerov1.Backup{}
	require.NoError(t, Backup(b).assign(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	require.Equal(t, "n", b.Name)
	require.ErrorContains(t, Backup(b).assign(&velerov1.Restore{}), "a watch of *v1.Backup brought a *v1.Restore")
}
