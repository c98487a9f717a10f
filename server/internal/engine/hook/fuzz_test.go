package hook

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// FuzzAnnotations reads any annotations of a pod. A command has words and a timeout.
func FuzzAnnotations(f *testing.F) {
	f.Add(`["/bin/sh","-c","true"]`, "30s", "Fail", `{"restore":"a"}`)
	f.Add(`[]`, "-1s", "", `null`)
	f.Add(`[null`, "1", "x", `[null]`)
	f.Fuzz(func(t *testing.T, text, timeout, onError, marked string) {
		a := annotated{prefix: "p/", values: map[string]string{"p/command": text, "p/timeout": timeout,
			"p/on-error": onError}, complain: func(string) {}}
		if c, ok := a.command("timeout", velerov1.HookErrorModeFail); ok {
			require.Positive(t, c.timeout)
		}
		m, _ := markOf(map[string]string{markAnnotation: marked}, "a")
		require.EqualValues(t, "a", m.Restore)
	})
}
