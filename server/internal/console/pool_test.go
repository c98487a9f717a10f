package console

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestPoolSharesObjects checks that viewers hold an object once, and that nobody holds one that all have forgotten.
func TestPoolSharesObjects(t *testing.T) {
	t.Parallel()
	object := func(version string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}, Data: map[string]string{"a": "b"}}
	}
	slim := func(o client.Object) {
		if m, ok := o.(*corev1.ConfigMap); ok {
			m.Data = nil
		}
	}
	var p pool
	one, other := p.intern(object("1"), slim), p.intern(object("1"), slim)
	require.Same(t, one, other)
	require.NotSame(t, one, p.intern(object("2"), slim))
	require.Equal(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}}, one.object)
	runtime.KeepAlive(one)
	require.Eventually(t, func() bool {
		runtime.GC()
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.rows) == 0
	}, time.Minute, 10*time.Millisecond)
}
