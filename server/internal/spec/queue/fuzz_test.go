package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// FuzzScope reads any annotation of a restore.
func FuzzScope(f *testing.F) {
	f.Add(`{"namespaces":["a"],"resources":["pods"],"cluster":true}`)
	f.Add(`null`)
	f.Add(`[null]`)
	f.Fuzz(func(t *testing.T, text string) {
		r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r",
			Annotations: map[string]string{ScopeAnnotation: text}}}
		require.LessOrEqual(t, len(restoring([]*velerov1.Restore{r}, []string{"a"})), 1)
	})
}
