package operations_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/operations"
)

func openDir(t *testing.T, path string) *operations.Dir {
	t.Helper()
	dir, err := operations.OpenDir(path)
	require.NoError(t, err)
	return dir
}

func TestOpenDirRefusesUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{file, filepath.Join(file, "below")} {
		_, err := operations.OpenDir(path)
		require.ErrorContains(t, err, "keep operations in "+path)
	}
}

func TestGetReportsDamagedFile(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, path)
	a := operation("a")
	require.NoError(t, dir.Create(t.Context(), a))
	file := filepath.Join(path, a.ID+".json")
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, test := range map[string]struct{ content, want string }{
		"empty":             {"", "unexpected end"},
		"zeros":             {strings.Repeat("\x00", 100), "invalid character"},
		"cut":               {string(good[:len(good)/2]), "unexpected end"},
		"null":              {"null", "version is 0"},
		"no operation":      {`{"version":1}`, "unexpected end of its JSON"},
		"another format":    {strings.Replace(string(good), `"format":1`, `"format":9`, 1), "its format is 9, want 1"},
		"another operation": {strings.ReplaceAll(string(good), `"a"`, `"b"`), "as computed from its runner and key"},
		"an unknown key":    {strings.Replace(string(good), `"attempt"`, `"attmpt"`, 1), "attmpt"},
		"a negative count":  {strings.Replace(string(good), `"nTotal":2`, `"nTotal":-2`, 1), "none may be negative"},
		"ended and owned": {strings.Replace(string(good), `"attempt"`, `"completed":true,"attempt"`, 1),
			"it has completed, but its owner is me"},
		"no input": {strings.Replace(string(good), `"input":{"a":1},`, ``, 1), "it has no input"},
	} {
		require.NoError(t, os.WriteFile(file, []byte(test.content), 0o600))
		_, err := dir.Get(t.Context(), a.ID)
		require.ErrorIs(t, err, operations.ErrDamaged, name)
		require.ErrorContains(t, err, file, name)
		require.ErrorContains(t, err, test.want, name)
		require.ErrorIs(t, dir.Update(t.Context(), a), operations.ErrDamaged, name)
		require.ErrorIs(t, dir.Create(t.Context(), operation("a")), operations.ErrExists,
			name+": a damaged operation must not be started again")
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, test.content, string(content), "the damaged file must be kept")
	}
	require.NoError(t, dir.Delete(t.Context(), a.ID))
}

func TestFullDiskKeepsOldState(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	path := t.TempDir()
	dir := openDir(t, path)
	a := operation("a")
	require.NoError(t, dir.Create(t.Context(), a))
	for _, o := range []*operations.Operation{a, operation("b")} {
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(path, "."+o.ID+".part")))
	}
	before := *a
	a.CancelRequested = true
	err := dir.Update(t.Context(), a)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "keep operation "+a.ID)
	require.Equal(t, before.Version, a.Version)
	require.ErrorIs(t, dir.Create(t.Context(), operation("b")), syscall.ENOSPC)
	kept, err := dir.Get(t.Context(), a.ID)
	require.NoError(t, err)
	require.Equal(t, &before, kept)
	_, err = dir.Get(t.Context(), operation("b").ID)
	require.ErrorIs(t, err, operations.ErrNotFound)

	require.NoError(t, dir.Update(t.Context(), a), "once there is room again")
	require.NoError(t, dir.Create(t.Context(), operation("b")))
}

func TestInvalidIDTouchesNoFile(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, filepath.Join(path, "state"))
	outside := filepath.Join(path, "x.json")
	require.NoError(t, os.WriteFile(outside, []byte("{}"), 0o600))
	for _, id := range []string{"", "../x", "op-", "op-" + strings.Repeat("A", 32), strings.Repeat("x", 5000)} {
		_, err := dir.Get(t.Context(), id)
		require.ErrorIs(t, err, operations.ErrNotFound)
		require.NoError(t, dir.Delete(t.Context(), id))
		o := operation("a")
		o.ID = id
		require.ErrorContains(t, dir.Create(t.Context(), o), "want an id that ID makes")
		require.ErrorContains(t, dir.Update(t.Context(), o), "want an id that ID makes")
	}
	require.FileExists(t, outside)
}

func TestChangeWaitsForLockUntilContextEnds(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, path)
	lock, err := os.OpenFile(filepath.Join(path, "."+operation("a").ID+".part"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithCancel(t.Context())
	created := make(chan error, 1)
	go func() { created <- dir.Create(ctx, operation("a")) }()
	cancel()
	require.ErrorIs(t, <-created, context.Canceled)

	go func() { created <- dir.Create(t.Context(), operation("a")) }()
	require.NoError(t, lock.Close())
	require.NoError(t, <-created)
}

func TestPartFileOfKilledProcessIsReplaced(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, path)
	a := operation("a")
	part := filepath.Join(path, "."+a.ID+".part")
	for _, change := range []func(context.Context, *operations.Operation) error{dir.Create, dir.Update} {
		require.NoError(t, os.WriteFile(part, []byte(strings.Repeat("garbage", 1000)), 0o600))
		require.NoError(t, change(t.Context(), a))
		require.NoFileExists(t, part)
		got, err := dir.Get(t.Context(), a.ID)
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	require.NoError(t, os.WriteFile(part, []byte("garbage"), 0o600))
	require.ErrorIs(t, dir.Create(t.Context(), operation("a")), operations.ErrExists)
	require.NoError(t, dir.Delete(t.Context(), a.ID))
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	require.Empty(t, entries)
}
