package store_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// deaf stores objects but answers that it has not.
type deaf struct{ objectstore.Store }

func (d deaf) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	return errors.Join(d.Store.PutObject(ctx, bucket, key, body), errors.New("the answer was lost"))
}

func TestLogIsAddedToOnce(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789", 10_000)
	for name, test := range map[string]struct{ stored, more, want string }{
		"no log":               {"", "more", "more"},
		"a log":                {"log;", "more", "log;more"},
		"a log that has it":    {"log;more", "more", "log;more"},
		"a log that is it":     {"more", "more", "more"},
		"a log that is longer": {"log;" + large, large[1:] + "!", "log;" + large + large[1:] + "!"},
		"much that it has":     {"log;" + large, large, "log;" + large},
		"another end":          {"log;" + large + "!", large, "log;" + large + "!" + large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const backupLog, restoreLog = "backups/b1/b1-logs.gz", "restores/r1/restore-r1-logs.gz"
			objects := newMemory()
			if test.stored != "" {
				objects.set(backupLog, test.stored)
				objects.set(restoreLog, test.stored)
			}
			s := store.New(objects, "bucket", "")
			require.NoError(t, s.AppendBackupLog(t.Context(), "b1", t.TempDir(), strings.NewReader(test.more)))
			require.NoError(t, s.AppendRestoreLog(t.Context(), "r1", t.TempDir(), strings.NewReader(test.more)))
			require.Equal(t, test.want, objects.content(backupLog))
			require.Equal(t, test.want, objects.content(restoreLog))

			answersLost := s.With(func(inner objectstore.Store) objectstore.Store { return deaf{inner} })
			require.Error(t, answersLost.AppendBackupLog(t.Context(), "b1", t.TempDir(), strings.NewReader("last")))
			require.NoError(t, s.AppendBackupLog(t.Context(), "b1", t.TempDir(), strings.NewReader("last")))
			require.Equal(t, test.want+"last", objects.content(backupLog))
		})
	}
}
