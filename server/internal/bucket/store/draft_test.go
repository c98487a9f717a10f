package store_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

const (
	draftDir  = "backups/b1/"
	operFile  = "b1-itemoperations.json.gz"
	logFile   = "b1-logs.gz"
	finalFile = "velero-backup.json"
)

// noted returns a backup of which the files in a bucket are noted, except for velero-backup.json.
func noted(objects *memory) *velerov1.Backup {
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b1",
		Annotations: map[string]string{velerov1.FilesAnnotation: ""}}}
	files := store.Tally{}
	for _, key := range objects.keys("bucket") {
		if name := key[len(draftDir):]; name != finalFile {
			files[name] = sumOf(objects.content(key))
		}
	}
	files.Note(b)
	return b
}

// ran returns a bucket with the files of a backup, each with its name as the content.
func ran(t *testing.T) *memory {
	t.Helper()
	objects := newMemory()
	for _, name := range []string{"b1.tar.gz", operFile, logFile, finalFile} {
		require.NoError(t, objects.PutObject(t.Context(), "bucket", draftDir+name, bytes.NewReader([]byte(name))))
	}
	return objects
}

func text(content string) io.ReadSeeker { return bytes.NewReader([]byte(content)) }

func readAll(t *testing.T, s *store.Store, name string) (string, error) {
	t.Helper()
	body, err := s.OpenFile(t.Context(), "b1", name)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(body)
	return string(content), errors.Join(err, body.Close())
}

func TestDraftIsStoredAfterItsSumsAreNoted(t *testing.T) {
	t.Parallel()
	objects := ran(t)
	b := noted(objects)
	s := store.New(objects, "bucket", "")
	d := s.Draft(b, t.TempDir())
	defer d.Close()
	require.True(t, d.IsEmpty())
	require.NoError(t, d.AppendBackupLog(t.Context(), "b1", t.TempDir(), text(" and more")))
	require.NoError(t, d.ReplaceBackupContents(t.Context(), "b1", upper))
	require.NoError(t, d.PutChecksums(t.Context(), "b1", []byte("sums"), nil))
	require.NoError(t, d.PutBackupMetadata(t.Context(), "b1", []byte("final")))
	for name, want := range map[string]string{
		"b1.tar.gz": "B1.TAR.GZ", operFile: operFile, logFile: logFile + " and more",
	} {
		got, err := readAll(t, d.Store, name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, "b1.tar.gz", objects.content(draftDir+"b1.tar.gz"), "nothing is stored yet")
	require.True(t, d.Rewrites())
	before := store.TallyOf(b)
	require.NoError(t, d.Note(b))
	require.Equal(t, before, store.TallyOf(b))
	require.Equal(t, d.Drafted(), store.Noted(b)[1])

	files, err := d.Tally(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.Flush(t.Context()))
	require.True(t, d.IsEmpty())
	puts := objects.puts()
	require.Equal(t, draftDir+finalFile, puts[len(puts)-1])
	require.NoError(t, d.Note(b))
	require.NotContains(t, b.Annotations, velerov1.PendingFilesAnnotation)
	for name, sum := range files {
		require.Equal(t, sumOf(objects.content(draftDir+name)), sum)
		require.Equal(t, sum, store.TallyOf(b)[name])
	}
	require.Equal(t, sumOf("final"), store.TallyOf(b)[finalFile])

	stale := noted(objects)
	stale.Annotations[velerov1.FilesAnnotation] += ",b1-more.gz=0:0"
	require.ErrorIs(t, d.Note(stale), store.ErrStale)
}

func TestDraftReadsWhatIsNotedOnly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(objects *memory)
		file   string
		is     []error
	}{
		"another archive": {func(o *memory) { o.set(draftDir+"b1.tar.gz", "other") }, "b1.tar.gz",
			[]error{store.ErrChanged, store.ErrDamaged, store.ErrLost}},
		"another file": {func(o *memory) { o.set(draftDir+logFile, "other") }, logFile,
			[]error{store.ErrChanged, store.ErrDamaged}},
		"no file": {func(o *memory) { delete(o.objects, "bucket/"+draftDir+logFile) }, logFile,
			[]error{store.ErrChanged, store.ErrDamaged}},
		"one more file": {func(o *memory) { o.set(draftDir+"b1-results.gz", "other") }, "b1-results.gz",
			[]error{store.ErrNotFound}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := ran(t)
			d := store.New(objects, "bucket", "").Draft(noted(objects), t.TempDir())
			defer d.Close()
			tt.change(objects)
			_, err := readAll(t, d.Store, tt.file)
			for _, is := range tt.is {
				require.ErrorIs(t, err, is)
			}
			require.NoError(t, d.PutBackupMetadata(t.Context(), "b1", []byte("final")))
		})
	}
	objects := ran(t)
	other := store.New(objects, "bucket", "").Draft(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b1"}}, "")
	objects.set(draftDir+logFile, "of another server")
	got, err := readAll(t, other.Store, logFile)
	require.NoError(t, err)
	require.Equal(t, "of another server", got)
}

var errKilled = errors.New("killed")

// killAfter makes the object store fail after so many objects are stored.
func killAfter(objects *memory, puts int) {
	objects.fault = func(call string) error {
		if strings.HasPrefix(call, "put ") {
			if puts--; puts < 0 {
				return errKilled
			}
		}
		return nil
	}
}

// TestDraftOfAKilledServer kills a server at each of its writes, and another one that goes on with it. Whatever is
// stored then has a sum that is noted, and somebody else's content is refused at each point.
func TestDraftOfAKilledServer(t *testing.T) {
	t.Parallel()
	work := func(d *store.Draft, content string) {
		require.NoError(t, d.AppendBackupLog(t.Context(), "b1", t.TempDir(), text(content)))
		require.NoError(t, d.PutBackupItemOperations(t.Context(), "b1", text(content)))
		require.NoError(t, d.PutChecksums(t.Context(), "b1", []byte(content), nil))
		require.NoError(t, d.PutBackupMetadata(t.Context(), "b1", []byte(content)))
	}
	const writes = 4
	for first := range writes + 1 {
		for second := range writes + 1 {
			objects := ran(t)
			b := noted(objects)
			for n, puts := range []int{first, second} {
				killAfter(objects, puts)
				d := store.New(objects, "bucket", "").Draft(b, t.TempDir())
				work(d, string(rune('1'+n)))
				stale := b.DeepCopy()
				require.NoError(t, d.Note(b))
				require.NoError(t, d.Note(stale))
				require.Equal(t, b.Annotations, stale.Annotations, "it can be repeated")
				if err := d.Flush(t.Context()); puts < writes {
					require.ErrorIs(t, err, errKilled)
				} else {
					require.NoError(t, err)
				}
				d.Close()
				tallies := store.Noted(b)
				for _, name := range []string{operFile, logFile, "b1.tar.gz"} {
					sum := sumOf(objects.content(draftDir + name))
					require.True(t, slices.ContainsFunc(tallies, func(t store.Tally) bool { return t[name] == sum }),
						"%s after %d and %d writes", name, first, second)
				}
			}
			next := store.New(objects, "bucket", "").Draft(b, t.TempDir())
			metadata, sums, err := next.Flushed(t.Context())
			require.NoError(t, err)
			require.Equal(t, second == writes, metadata != nil)
			if sums == nil {
				sums, err = next.Tally(t.Context())
				require.NoError(t, err)
			}
			next.Close()
			for name, sum := range sums {
				require.Equal(t, sumOf(objects.content(draftDir+name)), sum)
			}
			objects.fault = nil
			objects.set(draftDir+operFile, "of somebody else")
			last := store.New(objects, "bucket", "").Draft(b, t.TempDir())
			_, err = readAll(t, last.Store, operFile)
			require.ErrorIs(t, err, store.ErrChanged)
			require.NoError(t, last.PutBackupItemOperations(t.Context(), "b1", text("of the server")), "it can be replaced")
			require.NoError(t, last.Note(b))
			require.NoError(t, last.Flush(t.Context()))
			last.Close()
			require.Equal(t, "of the server", objects.content(draftDir+operFile))
		}
	}
}
