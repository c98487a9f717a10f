package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/plugins/internal/storetest"
)

// key is a pair of keys.
type key struct{ private, public string }

func newKey(t testing.TB) key {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return key{identity.String(), identity.Recipient().String()}
}

func newHybridKey(t *testing.T) key {
	t.Helper()
	identity, err := age.GenerateHybridIdentity()
	require.NoError(t, err)
	return key{identity.String(), identity.Recipient().String()}
}

// keyFile returns the path of a file with private keys, as age-keygen writes it.
func keyFile(t testing.TB, keys ...key) string {
	t.Helper()
	var lines strings.Builder
	for _, one := range keys {
		fmt.Fprintf(&lines, "# created: 2026-01-01T00:00:00Z\n# public key: %s\n%s\n\n", one.public, one.private)
	}
	path := filepath.Join(t.TempDir(), "identities")
	require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	return path
}

// files is a store on files, and its directory.
func files(t testing.TB) (store objectstorev1.ObjectStore, dir string) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
	return filestore.New(filestore.Config{Path: root}), filepath.Join(root, "bucket")
}

// sealedBy returns a store in front of another one.
func sealedBy(t testing.TB, behind objectstorev1.ObjectStore, config Config) objectstorev1.ObjectStore {
	t.Helper()
	s, err := New(config, behind)
	require.NoError(t, err)
	return s
}

func put(t testing.TB, s objectstorev1.ObjectStore, key, content string) {
	t.Helper()
	require.NoError(t, s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: "bucket", Key: key,
		Body: strings.NewReader(content)}))
}

// get reads an object as far as it can be read.
func get(ctx context.Context, s objectstorev1.ObjectStore, key string) (content string, err error) {
	output, err := s.GetObject(ctx, &objectstorev1.GetObjectInput{Bucket: "bucket", Key: key})
	if err != nil {
		return "", err
	}
	return readAll(output)
}

func readAll(output *objectstorev1.GetObjectOutput) (string, error) {
	defer func() { _ = output.Body.Close() }()
	all, err := io.ReadAll(output.Body)
	return string(all), err
}

func TestContract(t *testing.T) {
	t.Parallel()
	of := newKey(t)
	secretFile := keyFile(t, of)
	storetest.Run(t, storetest.Fixture{
		Register: Register,
		Config: func(t *testing.T) map[string]string {
			t.Helper()
			behind, _ := files(t)
			dir, err := os.MkdirTemp("", "sealed") // the path of a socket must be short
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			server, err := objectstorev1.ServeBehind(filepath.Join(dir, "s"), behind, hclog.NewNullLogger())
			require.NoError(t, err)
			t.Cleanup(server.Stop)
			return map[string]string{"store": "cleat.dev/file", "behind": server.Address(), "recipients": of.public,
				"secretFile": secretFile, "bucket": "bucket", "prefix": "p"}
		},
		New: func(t *testing.T) (objectstorev1.ObjectStore, string) {
			t.Helper()
			behind, dir := files(t)
			at := filepath.Dir(dir)
			bucket, err := os.MkdirTemp(at, "bucket")
			require.NoError(t, err)
			return sealedBy(t, behind, Config{Recipients: of.public,
				FrontConfig: objectstorev1.FrontConfig{SecretFile: secretFile}}), filepath.Base(bucket)
		},
		Unfinished: func(t *testing.T, _ string) []string {
			t.Helper()
			return nil // those of the store behind are tested there
		},
	})
}

// TestFaultsAreFound changes a stored object in every way. What is returned before the error is the beginning of the
// object, for it was authenticated.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	of := newKey(t)
	behind, dir := files(t)
	s := sealedBy(t, behind, Config{Recipients: of.public, Prefix: "p",
		FrontConfig: objectstorev1.FrontConfig{SecretFile: keyFile(t, of)}})
	content := strings.Repeat("0123456789abcdef", 3*64<<10/16) + "end"
	put(t, s, "p/backups/b/b.tar.gz", content)
	put(t, s, "p/backups/c/c.tar.gz", content)
	path := filepath.Join(dir, "p", "backups", "b", "b.tar.gz")
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	other, err := os.ReadFile(filepath.Join(dir, "p", "backups", "c", "c.tar.gz"))
	require.NoError(t, err)
	require.NotContains(t, string(good), "0123456789abcdef")
	header := bytes.Index(good, []byte("\n---")) + 1
	payload := header + bytes.IndexByte(good[header:], '\n') + 1
	const chunk = 64<<10 + 16
	changed := map[string][]byte{
		"empty": {}, "plain": []byte(content), "longer": append(bytes.Clone(good), 0), "twice": append(bytes.Clone(good),
			good...),
		"of another object": other,
		"payload of another object": append(bytes.Clone(good[:payload]),
			other[bytes.Index(other, []byte("\n---"))+1+44+4:]...),
		"chunks swapped": bytes.Join([][]byte{good[:payload+16], good[payload+16+chunk : payload+16+2*chunk],
			good[payload+16 : payload+16+chunk], good[payload+16+2*chunk:]}, nil),
		"a chunk left out": bytes.Join([][]byte{good[:payload+16], good[payload+16+chunk:]}, nil),
		"a long header": append([]byte("age-encryption.org/v1\n-> X25519 "),
			bytes.Repeat([]byte("a"), 1<<20)...),
		"an endless header": append([]byte("age-encryption.org/v1\n"),
			bytes.Repeat([]byte("-> x\n\n"), 1<<18)...),
		"name changed": bytes.Replace(good, []byte("cleat.dev/object"), []byte("cleat.dev/objecu"), 1),
	}
	for _, at := range []int{0, 5, 21, 22, 30, 100, header - 10, header, payload - 2, payload, payload + 15, payload + 16,
		payload + chunk, payload + 16 + chunk, len(good) - 17, len(good) - 1} {
		flipped := bytes.Clone(good)
		flipped[at] ^= 1
		changed[fmt.Sprintf("flipped at %d", at)] = flipped
		changed[fmt.Sprintf("cut at %d", at)] = good[:at]
	}
	for n := range 4 {
		changed[fmt.Sprintf("cut behind chunk %d", n)] = good[:payload+16+n*chunk]
	}
	for name, bad := range changed {
		if bytes.Equal(bad, good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		read, err := get(t.Context(), s, "p/backups/b/b.tar.gz")
		require.ErrorIs(t, err, framework.ErrInvalid, name)
		require.ErrorContains(t, err, `unseal p/backups/b/b.tar.gz in bucket "bucket": `, name)
		require.Less(t, len(err.Error()), 700, name)
		require.NotContains(t, err.Error(), "\n", name)
		require.True(t, strings.HasPrefix(content, read) && read != content || name == "longer" || name == "twice", name)
	}
	require.NoError(t, os.WriteFile(path, other, 0o600))
	_, err = get(t.Context(), s, "p/backups/b/b.tar.gz")
	require.ErrorContains(t, err, `it was sealed as "backups/c/c.tar.gz", and renamed or swapped since`)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	_, err = get(t.Context(), s, "p/backups/b/b.tar.gz")
	require.ErrorContains(t, err, "it is not sealed")
	require.NoError(t, os.WriteFile(path, good, 0o600))
	read, err := get(t.Context(), s, "p/backups/b/b.tar.gz")
	require.NoError(t, err)
	require.Equal(t, content, read)

	// A bucket can be copied to another prefix.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "q", "backups"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(dir, "p", "backups", "b"), filepath.Join(dir, "q", "backups", "b")))
	moved := sealedBy(t, behind, Config{Recipients: of.public, Prefix: "/q/",
		FrontConfig: objectstorev1.FrontConfig{SecretFile: keyFile(t, of)}})
	read, err = get(t.Context(), moved, "q/backups/b/b.tar.gz")
	require.NoError(t, err)
	require.Equal(t, content, read)
}

// TestKeysRotate adds keys and takes them away. Errors name the public keys, and no private one.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T) key{
		"classic": func(t *testing.T) key { t.Helper(); return newKey(t) }, "post-quantum": newHybridKey,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behind, dir := files(t)
			older, newer, stranger := make(t), make(t), make(t)
			with := func(recipients string, identities ...key) (objectstorev1.ObjectStore, error) {
				return New(Config{Recipients: recipients, FrontConfig: objectstorev1.FrontConfig{
					SecretFile: keyFile(t, identities...)}}, behind)
			}
			first, err := with(older.public, older)
			require.NoError(t, err)
			put(t, first, "first", "one")
			both, err := with(older.public+", "+newer.public, older)
			require.NoError(t, err)
			put(t, both, "both", "two")
			second, err := with(newer.public, newer, older)
			require.NoError(t, err)
			put(t, second, "second", "three")
			for object, want := range map[string]string{"first": "one", "both": "two", "second": "three"} {
				read, err := get(t.Context(), second, object)
				require.NoError(t, err)
				require.Equal(t, want, read)
			}
			rotated, err := with(newer.public, newer)
			require.NoError(t, err)
			read, err := get(t.Context(), rotated, "both")
			require.NoError(t, err)
			require.Equal(t, "two", read)
			_, err = get(t.Context(), rotated, "first")
			require.ErrorIs(t, err, framework.ErrInvalid)
			require.ErrorContains(t, err, "it is sealed for "+shortened(older.public)+", and there are the identities of "+
				shortened(newer.public))
			require.NotContains(t, err.Error(), "AGE-SECRET-KEY")
			_, err = with(newer.public, older, stranger)
			require.ErrorContains(t, err, "the identities would not open a new object")
			require.ErrorContains(t, err, shortened(newer.public))
			require.NotContains(t, err.Error(), "AGE-SECRET-KEY")

			// The program age opens an object with the identity alone.
			identity, ok := parseIdentity(newer.private)
			require.True(t, ok)
			file, err := os.Open(filepath.Join(dir, "both"))
			require.NoError(t, err)
			plain, err := age.Decrypt(file, identity.Identity)
			require.NoError(t, err)
			content, err := io.ReadAll(plain)
			require.NoError(t, err)
			require.Equal(t, "two", string(content))
			require.NoError(t, file.Close())
		})
	}
}

func TestKeysAreValidated(t *testing.T) {
	t.Parallel()
	of, another, hybrid := newKey(t), newKey(t), newHybridKey(t)
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "identities")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for name, test := range map[string]struct{ recipients, file, want string }{
		"right":             {of.public, keyFile(t, of), ""},
		"several":           {of.public + " \n" + another.public + "," + of.public, keyFile(t, another), ""},
		"no recipient":      {" , ", keyFile(t, of), "recipients: there is none, want the public keys of age"},
		"a private key":     {of.private, keyFile(t, of), "recipients: number 1 is a private key, which must not be in"},
		"not a key":         {of.public + ",age1xyz", keyFile(t, of), `recipients: number 2 is "age1xyz", want a public key`},
		"mixed":             {of.public + "," + hybrid.public, keyFile(t, of), "can't mix post-quantum and classic"},
		"too many":          {manyKeys(t, 33), keyFile(t, of), "recipients: there are 33, want 32 at most"},
		"no file":           {of.public, "/none/identities", "read the identities: open /none/identities"},
		"empty":             {of.public, file("# public key: " + of.public + "\n"), "there is none, want AGE-SECRET-KEY-1"},
		"public in file":    {of.public, file(of.public), "line 1 is none, want AGE-SECRET-KEY-1"},
		"damaged identity":  {of.public, file("\n" + of.private[:40]), "line 2 is none, want AGE-SECRET-KEY-1"},
		"cloud credentials": {of.public, file("[default]\naws_secret_access_key=hidden"), "line 1 is none"},
		"one long line":     {of.public, file(strings.Repeat("hidden", 1<<15)), "a line is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := Config{Recipients: test.recipients, FrontConfig: objectstorev1.FrontConfig{SecretFile: test.file}}
			behind, _ := files(t)
			_, err := New(config, behind)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), of.private[16:40])
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}

func manyKeys(t *testing.T, n int) string {
	t.Helper()
	var all []string
	for range n {
		all = append(all, newKey(t).public)
	}
	return strings.Join(all, ",")
}

// TestBrokenConnectionIsNoDamage: an error of the store behind stays what it is.
func TestBrokenConnectionIsNoDamage(t *testing.T) {
	t.Parallel()
	of := newKey(t)
	behind, _ := files(t)
	config := Config{Recipients: of.public, FrontConfig: objectstorev1.FrontConfig{SecretFile: keyFile(t, of)}}
	put(t, sealedBy(t, behind, config), "object", strings.Repeat("x", 200<<10))
	for _, after := range []int64{0, 10, 300, 100 << 10, 190 << 10} {
		s := sealedBy(t, breaking{behind, after}, config)
		_, err := get(t.Context(), s, "object")
		require.EqualError(t, err, fs.ErrClosed.Error())
		require.NotErrorIs(t, err, framework.ErrInvalid)
	}
}

// breaking is a store whose connections break after some bytes.
type breaking struct {
	objectstorev1.ObjectStore
	after int64
}

func (b breaking) GetObject(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	output, err := b.ObjectStore.GetObject(ctx, input)
	if err != nil {
		return nil, err
	}
	body := io.MultiReader(io.LimitReader(output.Body, b.after), broken{})
	return &objectstorev1.GetObjectOutput{Body: &object{Reader: body, Closer: output.Body}}, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fs.ErrClosed }

// FuzzUnseal gives unseal what anyone may have put into a bucket. It opens nothing but what was sealed.
func FuzzUnseal(f *testing.F) {
	of := newKey(f)
	opens, ok := parseIdentity(of.private)
	require.True(f, ok)
	recipients, err := parseRecipients([]string{of.public})
	require.NoError(f, err)
	const name, content = "backups/b/b.tar.gz", "what is sealed"
	sealed, err := seal(strings.NewReader(content), name, recipients)
	require.NoError(f, err)
	good, err := io.ReadAll(sealed)
	require.NoError(f, err)
	f.Add(0, 0, []byte{}, name)
	f.Add(30, 1, []byte("-> "), name)
	f.Add(len(good), 0, []byte("more"), name)
	f.Add(0, len(good), []byte("age-encryption.org/v1\n-> cleat.dev/object\n\n--- AAAA\n"), name)
	f.Add(0, 0, []byte{}, "backups/c/c.tar.gz")
	f.Fuzz(func(t *testing.T, at, without int, with []byte, as string) {
		at = max(0, min(at, len(good)))
		without = max(0, min(without, len(good)-at))
		changed := append(append(bytes.Clone(good[:at]), with...), good[at+without:]...)
		plain, err := unseal(bytes.NewReader(changed), as, []identity{opens})
		var read []byte
		if err == nil {
			read, err = io.ReadAll(plain)
		}
		part, errPart := fuzzedRange(changed, as, opens)
		if bytes.Equal(changed, good) && as == name {
			require.NoError(t, errors.Join(err, errPart))
			require.Equal(t, content, string(read))
			require.Equal(t, content[5:12], string(part))
			return
		}
		for _, err := range []error{err, errPart} {
			require.ErrorIs(t, err, framework.ErrInvalid)
			require.Less(t, len(err.Error()), 700)
		}
	})
}

// fuzzedRange reads a range of an object.
func fuzzedRange(stored []byte, name string, opens identity) ([]byte, error) {
	at := &window{read: func(offset, length int64) (*objectstorev1.GetObjectOutput, error) {
		size := int64(len(stored))
		from, n := objectstorev1.Range{Offset: offset, Length: length}.In(size)
		return &objectstorev1.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(stored[from : from+n])),
			Part: &objectstorev1.Part{Offset: from, Size: size}}, nil
	}}
	size, err := at.open()
	if err != nil {
		return nil, err
	}
	plain, _, err := unsealRange(at, size, name, []identity{opens}, objectstorev1.Range{Offset: 5, Length: 7})
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}

func BenchmarkSealAndUnseal(b *testing.B) {
	of := newKey(b)
	opens, _ := parseIdentity(of.private)
	recipients, err := parseRecipients([]string{of.public})
	require.NoError(b, err)
	const size = 16 << 20
	content := bytes.Repeat([]byte("x"), size)
	b.SetBytes(size)
	for b.Loop() {
		sealed, err := seal(bytes.NewReader(content), "name", recipients)
		require.NoError(b, err)
		plain, err := unseal(sealed, "name", []identity{opens})
		require.NoError(b, err)
		n, err := io.Copy(io.Discard, plain)
		require.NoError(b, err)
		require.EqualValues(b, size, n)
	}
}
