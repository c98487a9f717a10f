package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

func storeRules() []Rule {
	kinds := []string{"ObjectStore"}
	with := func(check func(context.Context, *store) error) func(context.Context, *subject) error {
		return func(ctx context.Context, s *subject) error {
			ready, err := s.store(ctx)
			if err != nil {
				return err
			}
			defer ready.clean(ctx)
			return check(ctx, ready)
		}
	}
	return []Rule{
		{
			ID: "store-before-init", Kinds: kinds, Severity: Must, check: checkStoreBeforeInit,
			Text: "A call before Init is answered, preferably with an error. The process does not exit.",
		},
		{
			ID: "store-config-missing", Kinds: kinds, Severity: Must, check: checkConfigMissing(nil, map[string]string{"bucket": ""}, map[string]string{"": ""}),
			Text: "Init without a config, or with one whose values are empty, is answered, with an error or without. The process does not exit.",
		},
		{
			ID: "store-config-unknown", Kinds: kinds, Severity: Should, check: checkConfigUnknown,
			Text: "A key of the config that the store does not know is an error, so that typing errors are found.",
		},
		{
			ID: "store-init", Kinds: kinds, Severity: Must, check: checkInit,
			Text: "Init accepts the given config, and requests with fields that the plugin does not know.",
		},
		{
			ID: "store-init-again", Kinds: kinds, Severity: Must, check: with(checkStoreInitAgain),
			Text: "A second Init in the same process does no harm, whether it is answered with an error or not.",
		},
		{
			ID: "store-round-trip", Kinds: kinds, Severity: Must, check: with(checkStoreRoundTrip),
			Text: "GetObject returns an object of any size as it was put.",
		},
		{
			ID: "store-empty-object", Kinds: kinds, Severity: Must, check: with(checkStoreEmpty),
			Text: "An upload of one message with an empty body is an empty object.",
		},
		{
			ID: "store-large-object", Kinds: kinds, Severity: Must, check: with(checkStoreLarge),
			Text: "An object of many MiB streams in both directions.",
		},
		{
			ID: "store-pieces", Kinds: kinds, Severity: Should, check: with(checkStorePieces),
			Text: "GetObject sends pieces of at most 16384 bytes.",
		},
		{
			ID: "store-replace", Kinds: kinds, Severity: Must, check: with(checkStoreReplace),
			Text: "A second PutObject to a key replaces the object.",
		},
		{
			ID: "store-exists", Kinds: kinds, Severity: Must, check: with(checkStoreExists),
			Text: "ObjectExists is true from PutObject to DeleteObject. A missing object is not an error, and a folder is not an object.",
		},
		{
			ID: "store-get-missing", Kinds: kinds, Severity: Must, check: with(checkStoreGetMissing),
			Text: "GetObject of an object that does not exist is an error.",
		},
		{
			ID: "store-delete-missing", Kinds: kinds, Severity: Should, check: with(checkStoreDeleteMissing),
			Text: "DeleteObject of an object that does not exist is not an error, because an interrupted deletion is repeated from the start.",
		},
		{
			ID: "store-list", Kinds: kinds, Severity: Must, check: with(checkStoreList),
			Text: "ListObjects answers all whole keys that start with the prefix, at any depth, each once. An empty list is not an error.",
		},
		{
			ID: "store-prefixes", Kinds: kinds, Severity: Must, check: with(checkStorePrefixes),
			Text: "ListCommonPrefixes answers the folders directly below the prefix, whole and with the delimiter at the end, each once. An empty list is not an error.",
		},
		{
			ID: "store-list-many", Kinds: kinds, Severity: Must, check: with(checkStoreListMany),
			Text: "Lists are complete even if there are more objects than fit into one page of a storage (1,000 in S3).",
		},
		{
			ID: "store-odd-keys", Kinds: kinds, Severity: Must, check: with(checkStoreOddKeys),
			Text: "A key may have any printable characters: spaces, quotes, signs that mean something in a URL, letters of any script.",
		},
		{
			ID: "store-broken-upload", Kinds: kinds, Severity: Must, check: with(checkStoreBrokenUpload),
			Text: "A cancelled upload leaves no object, and an existing one unchanged.",
		},
		{
			ID: "store-early-close", Kinds: kinds, Severity: Must, check: with(checkStoreEarlyClose),
			Text: "A download that the host cancels does no harm.",
		},
		{
			ID: "store-concurrent", Kinds: kinds, Severity: Must, check: with(checkStoreConcurrent),
			Text: "32 objects that are put and read concurrently keep their own contents.",
		},
		{
			ID: "store-missing-bucket", Kinds: kinds, Severity: Should, check: with(checkStoreMissingBucket),
			Text: "A bucket that does not exist is an error, not an empty list: a typing error in its name would look like lost backups.",
		},
		{
			ID: "store-signed-url", Kinds: kinds, Severity: Must, check: with(checkStoreSignedURL),
			Text: "CreateSignedURL answers an absolute URL that reads the object, without credentials; or an error, when the store cannot do that.",
		},
		{
			ID: "store-restart", Kinds: kinds, Severity: Must, check: with(checkStoreRestart),
			Text: "Objects survive the process: after a kill -9 the next process has them after its Init.",
		},
	}
}

func checkStoreBeforeInit(ctx context.Context, s *subject) error {
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	early := &store{subject: s, client: objectstorev1.NewObjectStoreClient(conn), bucket: "conformance"}
	_, listErr := early.keys(ctx, folder)
	putErr := early.put(ctx, folder+"early", strings.NewReader("x"))
	_, getErr := early.content(ctx, folder+"early")
	for call, err := range map[string]error{"ListObjects": listErr, "PutObject": putErr, "GetObject": getErr} {
		if hung(err) || panicked(err) {
			return fmt.Errorf("%s before Init: %w", call, err)
		}
	}
	return nil
}

func checkStoreInitAgain(ctx context.Context, s *store) error {
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	defer s.host.stop() // the next rules get a process with one Init
	if err := s.callInit(ctx, conn, s.configOf(s.name)); hung(err) || panicked(err) {
		return err
	}
	return s.comesBack(ctx, folder+"again", []byte("after a second Init"))
}

// comesBack puts an object and checks that it reads the same.
func (s *store) comesBack(ctx context.Context, key string, content []byte) error {
	if err := s.put(ctx, key, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("call of PutObject for %d bytes at %q: %w", len(content), key, err)
	}
	return s.has(ctx, key, content)
}

func (s *store) has(ctx context.Context, key string, content []byte) error {
	got, err := s.content(ctx, key)
	if err != nil {
		return fmt.Errorf("call of GetObject for %q: %w", key, err)
	}
	if !bytes.Equal(got, content) {
		return fmt.Errorf("call of GetObject for %q: %d bytes %s, want %d bytes %s", key, len(got), sample.Brief(got), len(content), sample.Brief(content))
	}
	return nil
}

func checkStoreRoundTrip(ctx context.Context, s *store) error {
	for _, size := range []int{1, 1000, pieceSize, pieceSize + 1, mebibyte} {
		if err := s.comesBack(ctx, folder+"deep/er/object", bytes.Repeat([]byte("x"), size)); err != nil {
			return err
		}
	}
	return nil
}

func checkStoreEmpty(ctx context.Context, s *store) error {
	return s.comesBack(ctx, folder+"empty", nil)
}

func checkStoreLarge(ctx context.Context, s *store) error {
	want, got := sha256.New(), sha256.New()
	if err := s.put(ctx, folder+"large", io.TeeReader(noise(s.large), want)); err != nil {
		return err
	}
	if _, err := s.get(ctx, folder+"large", got); err != nil {
		return err
	}
	if !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
		return fmt.Errorf("an object of %d bytes does not come back as it was put", s.large)
	}
	return nil
}

func checkStorePieces(ctx context.Context, s *store) error {
	if err := s.put(ctx, folder+"pieces", noise(mebibyte)); err != nil {
		return skip("PutObject does not work")
	}
	largest, err := s.get(ctx, folder+"pieces", io.Discard)
	if err != nil {
		return skip("GetObject does not work")
	}
	if largest > pieceSize {
		return fmt.Errorf("a piece has %d bytes", largest)
	}
	return nil
}

func checkStoreReplace(ctx context.Context, s *store) error {
	if err := s.put(ctx, folder+"key", strings.NewReader("a longer text")); err != nil {
		return err
	}
	return s.comesBack(ctx, folder+"key", []byte("short"))
}

func checkStoreExists(ctx context.Context, s *store) error {
	const key = folder + "exists/object"
	expect := func(key string, want bool, when string) error {
		got, err := s.exists(ctx, key)
		if err != nil {
			return fmt.Errorf("%s %s: %w", key, when, err)
		}
		if got != want {
			return fmt.Errorf("%s %s: exists is %t", key, when, got)
		}
		return nil
	}
	if err := expect(key, false, "before its PutObject"); err != nil {
		return err
	}
	if err := s.put(ctx, key, strings.NewReader("x")); err != nil {
		return err
	}
	if err := expect(key, true, "after its PutObject"); err != nil {
		return err
	}
	if err := expect(folder+"exists", false, "which is a folder"); err != nil {
		return err
	}
	if err := s.remove(ctx, key); err != nil {
		return err
	}
	return expect(key, false, "after its DeleteObject")
}

func checkStoreGetMissing(ctx context.Context, s *store) error {
	content, err := s.content(ctx, folder+"none/none.tar.gz")
	if err == nil {
		return fmt.Errorf("it has the content %s", sample.Brief(content))
	}
	return notHung(err)
}

func checkStoreDeleteMissing(ctx context.Context, s *store) error {
	return s.remove(ctx, folder+"none/none.tar.gz")
}

// putAll puts small objects at the given keys.
func (s *store) putAll(ctx context.Context, keys []string) error {
	var group errgroup.Group
	group.SetLimit(callers)
	for _, key := range keys {
		group.Go(func() error {
			if err := s.put(ctx, key, strings.NewReader("content of "+key)); err != nil {
				return fmt.Errorf("call of PutObject for %q: %w", key, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// same compares a list with what is expected.
func same(what string, got, want []string) error {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if slices.Equal(got, want) {
		return nil
	}
	if len(got)+len(want) > 40 {
		return fmt.Errorf("%s: there are %d, want %d", what, len(got), len(want))
	}
	return fmt.Errorf("%s: there is %q, want %q", what, got, want)
}

func (s *store) someObjects(ctx context.Context) error {
	var keys []string
	for _, key := range []string{"backups/b1/x", "backups/b1/deep/er/y", "backups/b10/x", "backups/file", "restores/r/x", "top"} {
		keys = append(keys, folder+key)
	}
	return s.putAll(ctx, keys)
}

func checkStoreList(ctx context.Context, s *store) error {
	if err := s.someObjects(ctx); err != nil {
		return err
	}
	for prefix, want := range map[string][]string{
		folder + "backups/b1/": {folder + "backups/b1/x", folder + "backups/b1/deep/er/y"},
		folder + "backups/b1":  {folder + "backups/b1/x", folder + "backups/b1/deep/er/y", folder + "backups/b10/x"},
		folder + "to":          {folder + "top"},
		folder + "nowhere/":    {},
	} {
		got, err := s.keys(ctx, prefix)
		if err != nil {
			return fmt.Errorf("with the prefix %q: %w", prefix, err)
		}
		if err := same(fmt.Sprintf("with the prefix %q", prefix), got, want); err != nil {
			return err
		}
	}
	return nil
}

func checkStorePrefixes(ctx context.Context, s *store) error {
	if err := s.someObjects(ctx); err != nil {
		return err
	}
	for prefix, want := range map[string][]string{
		folder:                 {folder + "backups/", folder + "restores/"},
		folder + "backups/":    {folder + "backups/b1/", folder + "backups/b10/"},
		folder + "backups/b1/": {folder + "backups/b1/deep/"},
		folder + "nowhere/":    {},
	} {
		got, err := s.prefixes(ctx, prefix)
		if err != nil {
			return fmt.Errorf("below %q: %w", prefix, err)
		}
		if err := same(fmt.Sprintf("below %q", prefix), got, want); err != nil {
			return err
		}
	}
	top, err := s.prefixes(ctx, "")
	if err != nil {
		return fmt.Errorf("at the top of the bucket: %w", err)
	}
	if !slices.Contains(top, folder) {
		return fmt.Errorf("at the top of the bucket: there is %q, and not %q", top, folder)
	}
	return nil
}

func checkStoreListMany(ctx context.Context, s *store) error {
	keys := make([]string, s.objects)
	prefixes := make([]string, s.objects)
	for i := range keys {
		prefixes[i] = fmt.Sprintf("%smany/b%d/", folder, i)
		keys[i] = prefixes[i] + "object"
	}
	if err := s.putAll(ctx, keys); err != nil {
		return err
	}
	got, err := s.keys(ctx, folder+"many/")
	if err != nil {
		return err
	}
	if err := same("ListObjects", got, keys); err != nil {
		return err
	}
	got, err = s.prefixes(ctx, folder+"many/")
	if err != nil {
		return err
	}
	return same("ListCommonPrefixes", got, prefixes)
}

func checkStoreOddKeys(ctx context.Context, s *store) error {
	odd := []string{
		"a b/c d", "plus+plus", "per%20cent", "q?uest=ion&more", "hash#tag", "quote'\"quote", "ünï/cødé/日本", "dots..in.name",
		"colon:semi;comma,at@", "(paren)[bracket]{brace}", "tilde~caret^", "star*", "dollar$", "back`tick", "pipe|", strings.Repeat("n", 200),
	}
	var keys []string
	for _, key := range odd {
		keys = append(keys, folder+"odd/"+key)
	}
	if err := s.putAll(ctx, keys); err != nil {
		return err
	}
	got, err := s.keys(ctx, folder+"odd/")
	if err != nil {
		return err
	}
	if err := same("ListObjects", got, keys); err != nil {
		return err
	}
	var reading errgroup.Group
	reading.SetLimit(callers)
	for _, key := range keys {
		reading.Go(func() error {
			if err := s.has(ctx, key, []byte("content of "+key)); err != nil {
				return err
			}
			if err := s.remove(ctx, key); err != nil {
				return fmt.Errorf("call of DeleteObject for %q: %w", key, err)
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	if got, err = s.keys(ctx, folder+"odd/"); err != nil {
		return err
	}
	return same("after all were deleted", got, nil)
}

// broken is a reader that cancels the upload after a pause and fails.
type broken struct{ cancel context.CancelFunc }

func (b broken) Read([]byte) (int, error) {
	time.Sleep(50 * time.Millisecond) // so that the plugin can begin
	b.cancel()
	return 0, errors.New("the body broke")
}

func checkStoreBrokenUpload(ctx context.Context, s *store) error {
	before := []byte("what was there before")
	if err := s.comesBack(ctx, folder+"replaced", before); err != nil {
		return err
	}
	for _, size := range []int64{0, pieceSize, 3 * pieceSize, s.large} {
		for _, key := range []string{folder + "broken", folder + "replaced"} {
			upload, cancel := context.WithCancel(ctx)
			err := s.put(upload, key, io.MultiReader(noise(size), broken{cancel}))
			cancel()
			if err == nil {
				return errors.New("an upload that was cancelled ended well")
			}
		}
	}
	unchanged := func() error {
		keys, err := s.keys(ctx, folder)
		if err != nil {
			return err
		}
		if err := same("after uploads that were cancelled", keys, []string{folder + "replaced"}); err != nil {
			return err
		}
		return s.has(ctx, folder+"replaced", before)
	}
	// An object that exists for a moment does no harm.
	for deadline := time.Now().Add(process.Patience); ; {
		err := settled(ctx, unchanged)
		if err == nil || hung(err) || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func checkStoreEarlyClose(ctx context.Context, s *store) error {
	if err := s.put(ctx, folder+"early", noise(s.large)); err != nil {
		return skip("PutObject of a large object does not work: %v", err)
	}
	for range 20 {
		download, cancel := context.WithCancel(ctx)
		stream, err := s.client.GetObject(download, &objectstorev1.GetObjectRequest{Plugin: s.name, Bucket: s.bucket, Key: folder + "early"})
		if err == nil {
			_, err = stream.Recv()
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return settled(ctx, func() error {
		return s.comesBack(ctx, folder+"after", []byte("after 20 downloads that were given up"))
	})
}

func checkStoreConcurrent(ctx context.Context, s *store) error {
	var group errgroup.Group
	for i := range callers {
		group.Go(func() error {
			content := bytes.Repeat([]byte(caller(i)), 20_000)
			return s.comesBack(ctx, folder+"at/once/"+caller(i), content)
		})
	}
	return group.Wait()
}

func checkStoreMissingBucket(ctx context.Context, s *store) error {
	other := *s
	other.bucket = "conformance-no-such-bucket"
	keys, err := other.keys(ctx, "")
	if err == nil {
		return fmt.Errorf("ListObjects in the bucket %s answers %q", other.bucket, keys)
	}
	return notHung(err)
}

func checkStoreSignedURL(ctx context.Context, s *store) error {
	for _, name := range []string{"log.gz", "a b/c+d", "per%20cent", "q?uest=ion&more", "hash#tag", "ünï/日本"} {
		key := folder + "signed/" + name
		if err := s.put(ctx, key, strings.NewReader("content of "+key)); err != nil {
			return skip("PutObject does not work: %v", err)
		}
		if err := s.readsSigned(ctx, key, "content of "+key); err != nil {
			return err
		}
	}
	return nil
}

// readsSigned asks for a signed URL of an object and reads it.
func (s *store) readsSigned(ctx context.Context, key, content string) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	answer, err := s.client.CreateSignedURL(ctx, &objectstorev1.CreateSignedURLRequest{
		Plugin: s.name, Bucket: s.bucket, Key: key, Ttl: int64(10 * time.Minute),
	})
	if err != nil {
		if notHung(err) != nil || panicked(err) || status.Code(err) == codes.Unimplemented {
			return err
		}
		return skip("the store answers an error: %v", err)
	}
	signed, err := url.Parse(answer.GetUrl())
	if err != nil || signed.Scheme == "" {
		return fmt.Errorf("the URL for %q has no scheme", key)
	}
	got, err := read(ctx, signed)
	if err != nil {
		return fmt.Errorf("for %q: %w", key, err)
	}
	if string(got) != content {
		return fmt.Errorf("for %q the URL reads %s, want %q", key, sample.Brief(got), content)
	}
	return nil
}

// read fetches a URL without credentials.
func read(ctx context.Context, signed *url.URL) ([]byte, error) {
	switch signed.Scheme {
	case "file":
		return os.ReadFile(filepath.FromSlash(signed.Path))
	case "http", "https":
	default:
		return nil, skip("this suite cannot read a URL with the scheme %q", signed.Scheme)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, signed.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		var told *url.Error
		if errors.As(err, &told) { // without the URL, which grants access
			err = told.Err
		}
		return nil, fmt.Errorf("read the URL: %w", err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the URL reads with the status %s: %s", response.Status, sample.Brief(got))
	}
	return got, err
}

func checkStoreRestart(ctx context.Context, s *store) error {
	content := []byte("what outlives the process")
	if err := s.comesBack(ctx, folder+"restart", content); err != nil {
		return err
	}
	s.host.stop()
	next, err := s.store(ctx)
	if err != nil {
		return err
	}
	s.client = next.client
	return s.has(ctx, folder+"restart", content)
}
