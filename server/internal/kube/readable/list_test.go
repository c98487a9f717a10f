package readable

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyWhatCannotBeReadIsUnreadable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"none":           {nil, false},
		"a bad duration": {fmt.Errorf("list: %w", errors.New(`time: invalid duration "9999999h"`)), true},
		"a refusal": {fmt.Errorf("list: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "backups"}, "", nil)),
			false},
		"no connection": {&url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}, false},
		"no such kind":  {&meta.NoKindMatchError{}, false},
		"cancelled":     {fmt.Errorf("list: %w", context.Canceled), false},
		"too late":      {context.DeadlineExceeded, false},
	} {
		require.Equal(t, tt.want, IsUnreadable(tt.err), name)
	}
}
