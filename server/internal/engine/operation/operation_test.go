package operation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

func TestOperationsAreOrderedByActionItemAndID(t *testing.T) {
	t.Parallel()
	of := func(action, name, id string) operation.Operation {
		return operation.Operation{Action: action, ID: id, Item: framework.ResourceIdentifier{Resource: "pods", Name: name},
			Created: time.Unix(int64(len(id)), 0)}
	}
	want := []operation.Operation{of("a", "x", "2"), of("a", "y", "1"), of("a", "y", "2"), of("b", "a", "0")}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, operation.Operation.Compare)
	require.Equal(t, want, got)
}
