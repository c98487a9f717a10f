package verify_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/bucket/verify"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// bucket is an object store for readers.
type bucket struct {
	objectstore.Store
	objects map[string][]byte
	damaged map[string]error // what reading an object ends with
	down    bool
}

func (b *bucket) ListObjects(_ context.Context, _, prefix string) (keys []string, err error) {
	if b.down {
		return nil, versioning.ErrUnavailable
	}
	for key := range b.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (b *bucket) ObjectExists(_ context.Context, _, key string) (bool, error) {
	return b.objects[key] != nil, nil
}

func (b *bucket) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	if err := b.damaged[key]; err != nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(b.objects[key][:2]), failing{err})), nil
	}
	return io.NopCloser(bytes.NewReader(b.objects[key])), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func zipped(text string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return out.Bytes()
}

// archived returns an archive of ConfigMaps. One whose name ends in "!" has another content.
func archived(t *testing.T, names ...string) []byte {
	t.Helper()
	packed, _ := summed(t, names...)
	return packed
}

// summed returns an archive of ConfigMaps with its sums.
func summed(t *testing.T, names ...string) (packed, itemSums []byte) {
	t.Helper()
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, noon)
	require.NoError(t, err)
	sums, err := archive.NewSums(t.TempDir())
	require.NoError(t, err)
	defer sums.Close()
	w.SumInto(sums)
	for _, name := range names {
		name, changed := strings.CutSuffix(name, "!")
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"n"}}`, name)
		if changed {
			body = strings.Replace(body, `{`, `{"data":{},`, 1)
		}
		require.NoError(t, w.Item(schema.GroupResource{Resource: "configmaps"}, "v1", true, "n", name, []byte(body)))
	}
	require.NoError(t, w.Close())
	content, err := sums.Content()
	require.NoError(t, err)
	itemSums, err = io.ReadAll(content)
	require.NoError(t, err)
	return out.Bytes(), itemSums
}

// files are those of a backup b of ConfigMaps a and b.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"backups/b/velero-backup.json":          []byte(`{"metadata":{"name":"b","uid":"u"}}`),
		"backups/b/b.tar.gz":                    archived(t, "a", "b"),
		"backups/b/b-resource-list.json.gz":     zipped(`{"v1/ConfigMap":["n/a","n/b"]}`),
		"backups/b/b-logs.gz":                   zipped("a log"),
		"backups/another/velero-backup.json":    []byte(`{}`),
		"backups/b-and-more/velero-backup.json": []byte(`{}`),
	}
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// newSigner returns a signer, and the ring that accepts it.
func newSigner(t *testing.T) (*trust.Signer, trust.Ring) {
	t.Helper()
	private, err := trust.NewKey()
	require.NoError(t, err)
	signer, err := trust.ParseKey(private)
	require.NoError(t, err)
	return signer, trust.Ring{{PublicKey: signer.Public}}
}

// sign adds checksums and their signature, and returns what a cluster notes.
func sign(t *testing.T, objects map[string][]byte, signer *trust.Signer, change func(*trust.Document)) store.Tally {
	t.Helper()
	d := &trust.Document{Format: trust.Version, Backup: trust.Backup{Name: "b", UID: "u"}, Signed: noon}
	noted := store.Tally{}
	for key, content := range objects {
		if name, ok := strings.CutPrefix(key, "backups/b/"); ok {
			d.Files = append(d.Files, trust.File{Name: name, Size: int64(len(content)), SHA256: sumOf(content)})
			noted[name] = store.Sum{SHA256: sumOf(content), Size: int64(len(content))}
		}
	}
	if change != nil {
		change(d)
	}
	checksums, err := d.Encode()
	require.NoError(t, err)
	signature, err := signer.Sign(t.Context(), checksums)
	require.NoError(t, err)
	objects["backups/b/b-checksums.json"], objects["backups/b/b-checksums.sig"] = checksums, signature
	return noted
}

// TestFaults makes one fault at a time in a signed backup, and in one of Velero, and requires the one finding.
func TestFaults(t *testing.T) {
	t.Parallel()
	signer, ring := newSigner(t)
	type backup = map[string][]byte
	for name, tt := range map[string]struct {
		fault    func(t *testing.T, objects backup)
		unsigned bool // as Velero's
		noted    bool // the cluster knows the sums
		quick    bool
		former   bool   // of a server that made no sums of items
		want     string // "kind of message"; "" for none
		notes    string
	}{
		"none":            {},
		"none, noted":     {noted: true},
		"none, of Velero": {unsigned: true, notes: "unsigned and has no checksums"},
		"flipped": {fault: func(_ *testing.T, o backup) { o["backups/b/b-logs.gz"][5] ^= 1 },
			want: "changed file b-logs.gz the file was changed: its SHA-256 sum is "},
		"cut": {fault: func(_ *testing.T, o backup) { o["backups/b/b-logs.gz"] = o["backups/b/b-logs.gz"][:7] },
			want: "changed file b-logs.gz the file was cut: it has 7 of "},
		"longer": {fault: func(_ *testing.T, o backup) {
			o["backups/b/b-logs.gz"] = append(o["backups/b/b-logs.gz"], 1)
		}, want: "changed file b-logs.gz the file was changed: it has "},
		"removed": {fault: func(_ *testing.T, o backup) { delete(o, "backups/b/b-logs.gz") },
			want: "missing file b-logs.gz"},
		"removed, quick": {quick: true, fault: func(_ *testing.T, o backup) { delete(o, "backups/b/b-logs.gz") },
			want: "missing file b-logs.gz"},
		"added": {fault: func(_ *testing.T, o backup) { o["backups/b/b-more.gz"] = []byte("x") },
			want: "added file b-more.gz"},
		"added, quick": {quick: true, fault: func(_ *testing.T, o backup) { o["backups/b/b-more.gz"] = []byte("x") },
			want: "added file b-more.gz"},
		"metadata, quick": {quick: true, fault: func(_ *testing.T, o backup) {
			o["backups/b/velero-backup.json"] = []byte(`{"metadata":{"name":"b","uid":"v"}}`)
		}, want: "changed file velero-backup.json"},
		"a rehearsal is beside it": {fault: func(_ *testing.T, o backup) {
			o["backups/b/b-rehearsal-1.json"] = []byte("x")
		}},
		"stages are left": {fault: func(_ *testing.T, o backup) {
			o["backups/b/staged/u/1/x/000001"] = []byte("x")
		}, notes: "1 files of attempts that did not end"},
		"another file": {fault: func(_ *testing.T, o backup) {
			o["backups/b/b-logs.gz"] = o["backups/b/b-resource-list.json.gz"]
		}, want: "swapped file b-logs.gz the file has the content of file b-resource-list.json.gz"},
		"the file of another backup": {fault: func(_ *testing.T, o backup) {
			o["backups/b/b-logs.gz"] = []byte("known")
		}, want: "swapped file b-logs.gz the file has the content of file known.gz of backup other"},
		"an item is missing": {fault: func(t *testing.T, o backup) { o["backups/b/b.tar.gz"] = archived(t, "a") },
			want: "missing item configmaps n/b"},
		"an item is added": {fault: func(t *testing.T, o backup) {
			o["backups/b/b.tar.gz"] = archived(t, "a", "b", "c")
		}, want: "added item configmaps n/c"},
		"an item is changed": {fault: func(t *testing.T, o backup) {
			o["backups/b/b.tar.gz"] = archived(t, "a", "b!")
		}, want: "changed item configmaps n/b the item was changed"},
		"the archive is no archive": {fault: func(_ *testing.T, o backup) { o["backups/b/b.tar.gz"] = []byte("x") },
			want: "missing item configmaps n/a"},
		"the sums are changed too": {fault: func(t *testing.T, o backup) {
			o["backups/b/b.tar.gz"], o["backups/b/b-items.sha256.gz"] = summed(t, "a")
		}, want: "missing item v1/ConfigMap n/b"},
		"of a former server, an item is missing": {former: true, fault: func(t *testing.T, o backup) {
			o["backups/b/b.tar.gz"] = archived(t, "a")
		}, want: "missing item v1/ConfigMap n/b"},
		"of a former server, an item is added": {former: true, fault: func(t *testing.T, o backup) {
			o["backups/b/b.tar.gz"] = archived(t, "a", "b", "c")
		}, want: "added item v1/ConfigMap n/c"},
		"checksums changed": {fault: func(_ *testing.T, o backup) {
			o["backups/b/b-checksums.json"] = append([]byte(" "), o["backups/b/b-checksums.json"]...)
		}, want: "signature file b-checksums.sig the signature is not valid"},
		"checksums damaged": {fault: func(_ *testing.T, o backup) { o["backups/b/b-checksums.json"] = []byte("{") },
			want: "changed file b-checksums.json"},
		"checksums removed": {fault: func(_ *testing.T, o backup) { delete(o, "backups/b/b-checksums.json") },
			want: "missing file b-checksums.json there is a signature"},
		"both removed, noted": {noted: true, fault: func(_ *testing.T, o backup) {
			delete(o, "backups/b/b-checksums.json")
			delete(o, "backups/b/b-checksums.sig")
		}, want: "missing file b-checksums.sig"},
		"signature damaged": {fault: func(_ *testing.T, o backup) { o["backups/b/b-checksums.sig"] = []byte("{") },
			want: "signature file b-checksums.sig"},
		"signed by another": {fault: func(t *testing.T, o backup) {
			other, _ := newSigner(t)
			delete(o, "backups/b/b-checksums.json")
			delete(o, "backups/b/b-checksums.sig")
			sign(t, o, other, nil)
		}, want: "signature file b-checksums.sig the signature is not accepted"},
		"an older backup under this name": {fault: func(t *testing.T, o backup) {
			delete(o, "backups/b/b-checksums.json")
			delete(o, "backups/b/b-checksums.sig")
			sign(t, o, signer, func(d *trust.Document) { d.Backup.Name = "older" })
		}, want: "swapped backup b the files are those of backup older"},
		"an older state of the backup": {noted: true, fault: func(t *testing.T, o backup) {
			o["backups/b/velero-backup.json"] = []byte(`{"metadata":{"name":"b","uid":"old"}}`)
			delete(o, "backups/b/b-checksums.json")
			delete(o, "backups/b/b-checksums.sig")
			sign(t, o, signer, nil)
		}, want: "swapped file b-checksums.json the checksums are of another state"},
		"a clock in the future": {fault: func(t *testing.T, o backup) {
			delete(o, "backups/b/b-checksums.json")
			delete(o, "backups/b/b-checksums.sig")
			sign(t, o, signer, func(d *trust.Document) { d.Signed = noon.Add(48 * time.Hour) })
		}, notes: "in the future"},
		"of Velero, cut": {unsigned: true, fault: func(_ *testing.T, o backup) {
			o["backups/b/b-logs.gz"] = o["backups/b/b-logs.gz"][:12]
		}, want: "changed file b-logs.gz the file is damaged"},
		"of Velero, an item is missing": {unsigned: true, fault: func(t *testing.T, o backup) {
			o["backups/b/b.tar.gz"] = archived(t, "b")
		}, want: "missing item v1/ConfigMap n/a"},
		"of Velero, nothing is left": {unsigned: true, fault: func(_ *testing.T, o backup) {
			for key := range o {
				if strings.HasPrefix(key, "backups/b/") {
					delete(o, key)
				}
			}
		}, want: "missing file velero-backup.json"},
		"of Velero, metadata damaged": {unsigned: true, fault: func(_ *testing.T, o backup) {
			o["backups/b/velero-backup.json"] = []byte("{")
		}, want: "changed file velero-backup.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := files(t)
			request := verify.Request{Backup: "b", Ring: ring, Now: noon.Add(time.Hour), Depth: velerov1.VerifyFiles,
				Known: func(sum string) string {
					if sum == sumOf([]byte("known")) {
						return "file known.gz of backup other"
					}
					return ""
				}}
			if tt.quick {
				request.Depth = velerov1.VerifyQuick
			}
			if !tt.unsigned && !tt.former {
				objects["backups/b/b.tar.gz"], objects["backups/b/b-items.sha256.gz"] = summed(t, "a", "b")
			}
			if !tt.unsigned {
				noted := sign(t, objects, signer, nil)
				if tt.noted {
					noted["b-checksums.json"], noted["b-checksums.sig"] = store.Sum{SHA256: "x", Size: -1},
						store.Sum{SHA256: "x", Size: -1}
					request.Noted = noted
				}
			}
			if tt.fault != nil {
				tt.fault(t, objects)
			}
			request.Objects = store.New(&bucket{objects: objects}, "", "")
			report, err := verify.Run(t.Context(), request)
			require.NoError(t, err)
			require.Contains(t, strings.Join(report.Notes, "\n"), tt.notes)
			var found []string
			for _, f := range report.Findings {
				found = append(found, fmt.Sprintf("%s %s %s", f.Kind, f.Of, f.Message))
			}
			if tt.want == "" {
				require.Empty(t, found)
				if !tt.unsigned {
					require.Equal(t, velerov1.SignatureValid, report.Signature)
				}
				return
			}
			require.Contains(t, strings.Join(found, "\n"), tt.want)
		})
	}
}

// TestStoreThatFailsIsNoDamage tells a store that is away from one that notices a changed object itself.
func TestStoreThatFailsIsNoDamage(t *testing.T) {
	t.Parallel()
	objects := files(t)
	signer, ring := newSigner(t)
	sign(t, objects, signer, nil)
	from := &bucket{objects: objects,
		damaged: map[string]error{"backups/b/b-logs.gz": errors.New("checksum did not match")}}
	request := verify.Request{Objects: store.New(from, "", ""), Backup: "b", Ring: ring, Now: noon,
		Depth: velerov1.VerifyFiles}
	report, err := verify.Run(t.Context(), request)
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Contains(t, report.Findings[0].Message, "the object store cannot read the file: ")

	from.damaged["backups/b/b-logs.gz"] = versioning.ErrUnavailable
	_, err = verify.Run(t.Context(), request)
	require.ErrorIs(t, err, versioning.ErrUnavailable)
	from.down = true
	_, err = verify.Run(t.Context(), request)
	require.ErrorIs(t, err, versioning.ErrUnavailable)
}

// TestFindingsAreBounded verifies a backup of which thousands of items are missing.
func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	objects := files(t)
	list := &strings.Builder{}
	for i := range 5000 {
		fmt.Fprintf(list, `,"n/more-%d"`, i)
	}
	objects["backups/b/b-resource-list.json.gz"] = zipped(`{"v1/ConfigMap":["n/a","n/b"` + list.String() + `]}`)
	report, err := verify.Run(t.Context(), verify.Request{
		Objects: store.New(&bucket{objects: objects}, "", ""), Backup: "b", Now: noon, Depth: velerov1.VerifyFiles})
	require.NoError(t, err)
	require.Len(t, report.Findings, 200)
	require.Equal(t, 4800, report.Others)
}
