package storage

import (
	"context"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// withStore adapts a check of an ObjectStore after its Init. The check has a folder for itself, in which nothing is
// left.
func withStore(folder string, check func(context.Context, *store) error) suite.Check {
	return with(func(ctx context.Context, s *plugin) error {
		ready, err := s.store(ctx, rootFolder+folder+"/")
		if err != nil {
			return err
		}
		defer ready.clean(ctx)
		return check(ctx, ready)
	})
}

func storeRules() []suite.Rule {
	kinds := []string{osv1.Kind().Wire}
	return []suite.Rule{
		{
			ID: "store-before-init", Kinds: kinds, Check: with(checkStoreBeforeInit),
			Text: "A call before Init is answered, preferably with an error, of whatever kind. The process does not exit.",
		},
		{
			ID: "store-config-missing", Kinds: kinds, Check: with(checkConfigMissing(nil, map[string]string{"bucket": ""},
				map[string]string{"": ""})),
			Text: "Init without a config, or with one whose values are empty, is answered, with an error or without. The " +
				"process does not exit.",
		},
		{
			ID: "store-config-unknown", Kinds: kinds, Should: true, Check: with(checkConfigUnknown),
			Text: "A key of the config that the store does not know is an error, so that typing errors are found.",
		},
		{
			ID: "store-init", Kinds: kinds, Check: with(checkInit),
			Text: "Init accepts the given config, and requests with fields that the plugin does not know.",
		},
		{
			ID: "store-init-again", Kinds: kinds, Check: withStore("init-again", checkStoreInitAgain),
			Text: "A second Init in the same process does no harm, whether it is answered with an error or not.",
		},
		{
			ID: "store-round-trip", Kinds: kinds, Check: withStore("round-trip", checkStoreRoundTrip),
			Text: "GetObject returns an object of any size as it was put.",
		},
		{
			ID: "store-empty-object", Kinds: kinds, Check: withStore("empty-object", checkStoreEmpty),
			Text: "An upload of one message with an empty body is an empty object.",
		},
		{
			ID: "store-large-object", Kinds: kinds, Check: withStore("large-object", checkStoreLarge),
			Text: "An object of many MiB streams in both directions.",
		},
		{
			ID: "store-pieces", Kinds: kinds, Should: true, Check: withStore("pieces", checkStorePieces),
			Text: "GetObject sends pieces of at most 16384 bytes.",
		},
		{
			ID: "store-replace", Kinds: kinds, Check: withStore("replace", checkStoreReplace),
			Text: "A second PutObject to a key replaces the object.",
		},
		{
			ID: "store-exists", Kinds: kinds, Check: withStore("exists", checkStoreExists),
			Text: "ObjectExists is true from PutObject to DeleteObject. A missing object is not an error.",
		},
		{
			ID: "store-get-missing", Kinds: kinds, Check: withStore("get-missing", checkStoreGetMissing),
			Text: "GetObject of an object that does not exist is an error.",
		},
		{
			ID: "store-delete-missing", Kinds: kinds, Should: true, Check: withStore("delete-missing", checkStoreDeleteMissing),
			Text: "DeleteObject of an object that does not exist is not an error, because an interrupted deletion is repeated " +
				"from the start.",
		},
		{
			ID: "store-list", Kinds: kinds, Check: withStore("list", checkStoreList),
			Text: "ListObjects answers all whole keys that start with the prefix, at any depth, each once. An empty list is " +
				"not an error.",
		},
		{
			ID: "store-prefixes", Kinds: kinds, Check: withStore("prefixes", checkStorePrefixes),
			Text: "ListCommonPrefixes answers the folders directly below the prefix, whole and with the delimiter at the end, " +
				"each once. An empty list is not an error.",
		},
		{
			ID: "store-list-many", Kinds: kinds, Check: withStore("list-many", checkStoreListMany),
			Text: "Lists are complete even if there are more objects than fit into one page of a storage (1,000 in S3).",
		},
		{
			ID: "store-odd-keys", Kinds: kinds, Check: withStore("odd-keys", checkStoreOddKeys),
			Text: "A key may have any printable characters: spaces, quotes, signs that mean something in a URL, letters of " +
				"any script.",
		},
		{
			ID: "store-broken-upload", Kinds: kinds, Check: withStore("broken-upload", checkStoreBrokenUpload),
			Text: "A cancelled upload leaves no object, and an existing one unchanged.",
		},
		{
			ID: "store-early-close", Kinds: kinds, Check: withStore("early-close", checkStoreEarlyClose),
			Text: "A download that the host cancels does no harm.",
		},
		{
			ID: "store-concurrent", Kinds: kinds, Check: withStore("concurrent", checkStoreConcurrent),
			Text: "32 objects that are put and read concurrently keep their own contents.",
		},
		{
			ID: "store-missing-bucket", Kinds: kinds, Should: true, Check: withStore("missing-bucket", checkStoreMissingBucket),
			Text: "A bucket that does not exist is an error, not an empty list: a typing error in its name would look like " +
				"lost backups.",
		},
		{
			ID: "store-signed-url", Kinds: kinds, Check: withStore("signed-url", checkStoreSignedURL),
			Text: "CreateSignedURL answers an absolute URL that reads the object, without credentials; or an error, when the " +
				"store cannot do that. An address that the machine of the test does not reach is not held against the store.",
		},
		{
			ID: "store-locks", Kinds: kinds, Check: withStore("locks", checkStoreLocks),
			Text: "A store that serves ObjectLockService tells what a bucket locks, without a contradiction.",
		},
		{
			ID: "store-hold", Kinds: kinds, Check: withStore("hold", checkStoreHold),
			Text: "Where a bucket can lock, a held object is told as held, and its DeleteObject fails and says so, until the " +
				"hold is ended. SetHold can be repeated.",
		},
		{
			ID: "store-restart", Kinds: kinds, Check: withStore("restart", checkStoreRestart),
			Text: "Objects survive the process: after a kill -9 the next process has them after its Init.",
		},
	}
}
