package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// FuzzAnnotations reads any annotations that say what a backup waits for, and how it was verified.
func FuzzAnnotations(f *testing.F) {
	f.Add(`{"reason":"a"}`, `{"waits":[{"for":"a"}]}`)
	f.Add(`null`, `null`)
	f.Add(`[null]`, `{"waits":[null]}`)
	f.Fuzz(func(t *testing.T, queue, waits string) {
		b := new(velerov1.Backup)
		b.Annotations = map[string]string{velerov1.QueueWaitAnnotation: queue, velerov1.WaitsAnnotation: waits,
			velerov1.VerificationAnnotation: waits, velerov1.VerifyAnnotation: queue}
		if wait, err := velerov1.QueueWaitOf(b); err == nil {
			require.NotNil(t, wait)
		}
		if list, err := velerov1.WaitsOf(b); err == nil {
			require.NotNil(t, list)
		}
		if last, err := velerov1.VerificationOf(b); err == nil {
			require.NotNil(t, last)
		}
		if request, err := velerov1.VerifyRequestOf(b); err == nil {
			require.NotNil(t, request)
		}
	})
}
