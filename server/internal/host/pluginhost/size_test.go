package pluginhost

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestErrorOfTooLargeMessageNamesLimit(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave", "garbage"), func(c *Config) { c.Limits.MessageSize = 1 << 20 })
	action := h.behave(t)
	pid := processOf(t, action)
	_, err := execute(t.Context(), action, "grow")
	require.Regexp(t, `^BackupItemAction\(example.io/behave\): its reply of 52\d{5} bytes is larger than the limit of 1048576; `+
		`if that is right, raise plugins.limits.messageSize$`, err.Error())
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Equal(t, pid, processOf(t, action), "no reason to restart")

	stock := h.action(t, "example.io/garbage")
	item := strings.Replace(string(itemDoing("")), `"metadata"`, `"data":{"k":"`+strings.Repeat("d", 5<<20)+
		`"},"metadata"`, 1)
	_, err = stock.Execute(t.Context(), []byte(item), backupJSON)
	require.Regexp(t, `^BackupItemAction\(example.io/garbage\): the request of 52\d{5} bytes is larger than the 4194304 that the plugin takes; `+
		`a plugin that is built with cleat's framework takes more$`, err.Error())
}
