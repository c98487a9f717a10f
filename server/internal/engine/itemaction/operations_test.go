package itemaction_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/versioning"
)

// starter is an action that starts operations like a given version.
type starter versioning.Starts

func (starter) Name() string { return "a.io/copy" }

func (s starter) Starts() versioning.Starts { return versioning.Starts(s) }

func TestOperationsAreCollectedOnce(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	pod := func(name string) framework.ResourceIdentifier {
		return framework.ResourceIdentifier{Resource: "pods", Namespace: "shop", Name: name}
	}
	post := []framework.ResourceIdentifier{pod("done")}
	for version, starts := range map[string]versioning.Starts{"unkeyed": versioning.Unkeyed, "keyed": versioning.Keyed} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			operations := itemaction.NewOperations(nil, nil, func() time.Time { return at })
			call := func(name, id string, failure error) error {
				sent := `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"` + name + `"}}`
				return operations.Call(t.Context(), starter(starts), pod(name), []byte(sent),
					func() (string, []framework.ResourceIdentifier, error) {
						return id, post, failure
					})
			}
			require.NoError(t, call("web", "op-2", nil))
			require.NoError(t, call("web", "op-2", nil), "the same one again")
			require.NoError(t, call("db", "op-1", nil))
			require.NoError(t, call("idle", "", nil))
			broken := errors.New("disk full")
			require.ErrorIs(t, call("broken", "op-3", broken), broken)
			require.EqualError(t, call("thief", "op-1", nil),
				"a.io/copy returned operation op-1, which it has started for pods/shop/db; want an operation of its own for "+
					"each item")
			require.Equal(t, []operation.Operation{
				{Action: "a.io/copy", ID: "op-1", Item: pod("db"), PostOperationItems: post, Created: at,
					Status: operation.Status{Phase: operation.New}},
				{Action: "a.io/copy", ID: "op-2", Item: pod("web"), PostOperationItems: post, Created: at,
					Status: operation.Status{Phase: operation.New}},
			}, operations.Complete())
		})
	}
}

func TestActionWithAKeyIsNotCalledForAnItemThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	operations := itemaction.NewOperations(nil, nil, time.Now)
	for _, sent := range []string{"garbage", `{"kind":"Pod","metadata":{}}`} {
		err := operations.Call(context.Background(), starter(versioning.Keyed), framework.ResourceIdentifier{}, []byte(sent),
			func() (string, []framework.ResourceIdentifier, error) {
				require.Fail(t, "called")
				return "", nil, nil
			})
		require.ErrorContains(t, err, "item for a.io/copy: ")
	}
}
