package repository_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
)

func FuzzNames(f *testing.F) {
	for _, name := range []string{"plain", "größe", "\xff", `\xff`, "\uefff", "a\x80\xffb", "\uef80\xff\ufffd", "\xef\xbe"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		stored := repository.StoredName(name)
		require.True(t, utf8.ValidString(stored))
		require.Equal(t, name, repository.FileName(stored))
	})
}

func TestOnlyNamesThatKopiaCannotStoreAreStoredOtherwise(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "größe", `\xff`, "\ufffd", "\ue000", "new\nline"} {
		require.Equal(t, name, repository.StoredName(name))
		require.Equal(t, name, repository.FileName(name))
	}
	require.Equal(t, "a\uefffb", repository.StoredName("a\xffb"))
	require.Equal(t, "\uefee\uefbf\uefbf", repository.StoredName("\uefff"), "a character that stands for a byte")
}
