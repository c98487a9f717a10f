package reply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

func TestConfigIsAlwaysAnObject(t *testing.T) {
	t.Parallel()
	require.Equal(t, "{}", string(reply.Config(nil)))
	require.Equal(t, `{"a":1}`, string(reply.Config([]byte(`{"a":1}`))))
}
