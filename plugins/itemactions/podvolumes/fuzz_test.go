package podvolumes

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// FuzzSecurity reads any settings of the container that waits for volumes.
func FuzzSecurity(f *testing.F) {
	f.Add("runAsUser: 1\ncapabilities: {drop: [ALL]}", "1", "true")
	f.Add("null", "-1", "")
	f.Add("[null]", "a", "b")
	f.Fuzz(func(t *testing.T, context, user, escalate string) {
		got, err := securityFor(map[string]string{"secCtx": context, "secCtxRunAsUser": user,
			"secCtxAllowPrivilegeEscalation": escalate}, new(corev1.Pod), nil)
		if err == nil {
			require.True(t, got == nil || got.Size() >= 0)
		}
	})
}
