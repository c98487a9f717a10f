package kopia

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
	"github.com/cleat-dev/cleat/plugins/s3store"
)

func TestCredentialsAreReadAgainWhenTheirFileChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credentials")
	modified := time.Now().Add(-time.Hour)
	set := func(text string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		modified = modified.Add(time.Minute)
		require.NoError(t, os.Chtimes(file, modified, modified))
	}
	keysOf := func(id string) string {
		return fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = secret-of-%[1]s\n", id)
	}
	set(keysOf("one"))
	k := &keys{config: s3store.Config{S3URL: "http://s3.test", CredentialsFile: file}}
	get := func() string {
		k.looked = time.Time{} // some time has passed
		found, err := k.get(t.Context())
		require.NoError(t, err)
		require.Equal(t, storage.Keys{AccessKeyID: found.AccessKeyID, SecretAccessKey: "secret-of-" + found.AccessKeyID},
			found)
		return found.AccessKeyID
	}
	require.Equal(t, "one", get())
	set(keysOf("two"))
	require.Equal(t, "two", get())
	set("half a file") // while it is being written
	require.Equal(t, "two", get())
	require.NoError(t, os.Remove(file))
	require.Equal(t, "two", get())
	set(keysOf("three"))
	require.Equal(t, "three", get())

	k = &keys{config: s3store.Config{S3URL: "http://s3.test", CredentialsFile: filepath.Join(t.TempDir(), "absent")}}
	_, err := k.get(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
}
