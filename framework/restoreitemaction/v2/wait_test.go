package v2_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/plugintest"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

// afterItsKey has databases restored when their keys have been unlocked.
type afterItsKey struct {
	riav2.ExecuteOnly
	unlocked func(key framework.ResourceIdentifier) (bool, error)
}

func (a afterItsKey) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"databases.example.io"}}, nil
}

func (a afterItsKey) Execute(_ context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	key := framework.ResourceIdentifier{Group: "example.io", Resource: "keys",
		Namespace: input.ItemFromBackup.GetNamespace(), Name: "main"}
	return riav2.NewExecuteOutput(input.Item).WithItems(key).WithItemsWaitFor(time.Hour), nil
}

func (a afterItsKey) AreAdditionalItemsReady(
	_ context.Context, input *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	for _, key := range input.AdditionalItems {
		if unlocked, err := a.unlocked(key); err != nil || !unlocked {
			return nil, err
		}
	}
	return &riav2.AreAdditionalItemsReadyOutput{Ready: true}, nil
}

func TestItemWaitsUntilAdditionalItemsAreReady(t *testing.T) {
	t.Parallel()
	answers := []struct {
		unlocked bool
		err      error
	}{{false, nil}, {true, nil}, {false, errors.New("the key is lost")}}
	var asked []framework.ResourceIdentifier
	plugin := plugintest.Run(t,
		riav2.Register("example.io/after-its-key", func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
			return afterItsKey{unlocked: func(key framework.ResourceIdentifier) (bool, error) {
				asked = append(asked, key)
				return answers[len(asked)-1].unlocked, answers[len(asked)-1].err
			}}, nil
		}))
	action := plugin.RestoreItemActionV2("example.io/after-its-key")
	item := plugintest.Object(t, `{apiVersion: example.io/v1, kind: Database, metadata: {namespace: shop, name: orders}}`)
	restore := plugintest.Restore("monday", "nightly")

	output, err := action.Execute(t.Context(), &riav2.ExecuteInput{Item: item, ItemFromBackup: item, Restore: restore})
	require.NoError(t, err)
	require.True(t, output.WaitForAdditionalItems)
	require.Equal(t, time.Hour, output.AdditionalItemsReadyTimeout)
	for _, answer := range answers {
		ready, err := action.AreAdditionalItemsReady(t.Context(),
			&riav2.AreAdditionalItemsReadyInput{AdditionalItems: output.AdditionalItems, Restore: restore})
		if answer.err != nil {
			require.ErrorContains(t, err, "RestoreItemAction(example.io/after-its-key): the key is lost")
		} else {
			require.NoError(t, err)
			require.Equal(t, answer.unlocked, ready.Ready)
		}
		require.Equal(t, output.AdditionalItems[0], asked[len(asked)-1])
	}

	require.Zero(t, riav2.NewExecuteOutput(item).WithItemsWait().AdditionalItemsReadyTimeout,
		"the server's own timeout holds")
}
