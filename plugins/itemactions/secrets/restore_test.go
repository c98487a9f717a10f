package secrets_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/secrets"
)

// token returns a token Secret in the namespace "shop". rest follows the first fields of its metadata.
func token(name, metadata, rest string) string {
	return `{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"namespace":"shop","name":"` +
		name + `"` + metadata + `}` + rest + `}`
}

func TestServiceAccountTokensAreSkippedOrEmptied(t *testing.T) {
	t.Parallel()
	existing := map[string]bool{"shop/web": true, "shop/web-token": true, "copy/other": true}
	action, err := secrets.NewRestore(func(_ context.Context, namespace, name string) (bool, error) {
		if namespace == "broken" {
			return false, errors.New("the API server is away")
		}
		return existing[namespace+"/"+name], nil
	})
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"secrets"}}, selector)

	mapped := func(to string) velerov1.RestoreSpec {
		return velerov1.RestoreSpec{NamespaceMapping: map[string]string{"shop": to}}
	}
	full := token("my-token",
		`,"annotations":{"kubernetes.io/service-account.name":"web","kubernetes.io/service-account.uid":"u"}`,
		`,"data":{"token":"dA==","ca.crt":"Yw==","namespace":"c2hvcA==","mine":"bQ=="}`)
	for name, row := range map[string]actiontest.Restore{
		"no token": {Item: `{"apiVersion":"v1","kind":"Secret","type":"Opaque","metadata":{"namespace":"shop","name":"web-token-x7k2p"},"data":{"token":"dA=="}}`},
		"no type":  {Item: `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"web-token-x7k2p"},"data":{"token":"dA=="}}`},
		"a user's token comes without what the cluster fills in": {
			Item: full,
			Want: token("my-token", `,"annotations":{"kubernetes.io/service-account.name":"web"}`,
				`,"data":{"namespace":"c2hvcA==","mine":"bQ=="}`),
		},
		"a user's token with nothing else": {
			Item: token("my-token", `,"annotations":{"kubernetes.io/service-account.uid":"u"}`, `,"data":{"token":"dA=="}`),
			Want: token("my-token", "", ""),
		},
		"made by the cluster": {Item: token("web-token-x7k2p",
			`,"annotations":{"kubernetes.io/service-account.name":"web"}`, ""), Skip: true},
		"made by the cluster, not annotated":               {Item: token("web-token-x7k2p", "", ""), Skip: true},
		"made by the cluster for an account with the word": {Item: token("web-token-token-x7k2p", "", ""), Skip: true},
		"named like another account's token": {Item: token("web-token-mine",
			`,"annotations":{"kubernetes.io/service-account.name":"ada"}`, "")},
		"the account is not there": {Item: token("ada-token-x7k2p", "", "")},
		"the account is not there where it goes": {
			Item: token("web-token-x7k2p", "", ""), Spec: mapped("copy"),
		},
		"the account is there where it goes": {
			Item: token("other-token-x7k2p", "", ""), Spec: mapped("copy"), Skip: true,
		},
		"the cluster cannot say": {
			Item: token("web-token-x7k2p", "", ""), Spec: mapped("broken"),
			Err: "whether service account broken/web exists: the API server is away",
		},
		"foreign type": {Item: `{"apiVersion":"v1","kind":"Secret","type":7,"metadata":{"name":"a"}}`,
			Err: "type is a number, want a string"},
		"foreign data": {Item: token("my-token", "", `,"data":"x"`), Err: "data is a string, want an object"},
		"foreign annotation": {Item: token("my-token", `,"annotations":{"a":1}`, ""),
			Err: "metadata.annotations.a is a number, want a string"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, full, velerov1.RestoreSpec{})
}
