package pluginlock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/versioning"
)

const (
	sumA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	sumB = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
)

func twoBinaries() *pluginlock.Lock {
	return &pluginlock.Lock{Plugins: []pluginlock.Plugin{
		{Path: "idle", SHA256: sumB, Provides: []pluginlock.Provided{}},
		{Path: "vendor/mover", SHA256: sumA, Provides: []pluginlock.Provided{
			{Kind: "BackupItemAction", Version: 1, Name: "example.io/mover"},
			{Kind: "BackupItemAction", Version: 2, Name: "example.io/mover"},
			{Kind: "ObjectStore", Version: 1, Name: "example.io/box"},
		}},
	}}
}

const written = `# The plugin binaries that a server may run. "cleat plugin lock" writes this file, "cleat plugin verify" checks it.
apiVersion: cleat.dev/v1
plugins:
  - path: idle
    sha256: ` + sumB + `
    provides: []
  - path: vendor/mover
    sha256: ` + sumA + `
    provides:
      - {kind: BackupItemAction, version: 1, name: example.io/mover}
      - {kind: BackupItemAction, version: 2, name: example.io/mover}
      - {kind: ObjectStore, version: 1, name: example.io/box}
`

func TestALockIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), pluginlock.FileName)
	want := twoBinaries()
	shuffled := twoBinaries()
	shuffled.Plugins[0], shuffled.Plugins[1] = shuffled.Plugins[1], shuffled.Plugins[0]
	shuffled.Plugins[0].Provides[0], shuffled.Plugins[0].Provides[2] = shuffled.Plugins[0].Provides[2],
		shuffled.Plugins[0].Provides[0]
	require.NoError(t, os.WriteFile(path, []byte("what was there"), 0o600))
	require.NoError(t, shuffled.Write(path))

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, written, string(data))
	got, err := pluginlock.Read(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left beside it")
}

func TestALockThatNobodyCouldReadIsNotWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), pluginlock.FileName)
	require.ErrorContains(t, (&pluginlock.Lock{Plugins: []pluginlock.Plugin{{Path: "../up", SHA256: sumA}}}).Write(path),
		"nobody could read")
	require.NoFileExists(t, path)
	err := twoBinaries().Write(filepath.Join(path, "no-such-directory", "x"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = pluginlock.Read(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestALockSaysWhyABinaryMustNotRun(t *testing.T) {
	t.Parallel()
	lock := twoBinaries()
	require.NoError(t, lock.Check("vendor/mover", sumA))
	require.EqualError(t, lock.Check("mover", sumA),
		`it is not in the lock; if that is what you want to run, write the lock again with "cleat plugin lock"`)
	require.EqualError(t, lock.Check("idle", sumA), "its sha256 sum is "+sumA+", the lock has "+sumB+
		`: the file has changed; if that is what you want to run, write the lock again with "cleat plugin lock"`)
	require.Equal(t, lock.Plugins[1:], lock.Missing([]string{"idle", "else"}))
	require.Empty(t, lock.Missing([]string{"vendor/mover", "idle"}))
}

func TestALockSaysHowAListDiffers(t *testing.T) {
	t.Parallel()
	mover, found := twoBinaries().Plugin("vendor/mover")
	require.True(t, found)
	same := []versioning.Listed{
		{Kind: "ObjectStore", Name: "example.io/box"}, {Kind: "BackupItemActionV2", Name: "example.io/mover"},
		{Kind: "BackupItemAction", Name: "example.io/mover"}, {Kind: "ObjectStore", Name: "example.io/box"},
	}
	require.NoError(t, mover.CheckProvides(same))
	require.EqualError(t, mover.CheckProvides(
		append(same[1:3:3], versioning.Listed{Kind: "ObjectStore", Name: "example.io/crate"}),
	),
		"it does not provide ObjectStore example.io/box and it provides ObjectStore example.io/crate, which the lock does "+
			"not have; "+
			`if that is what you want to run, write the lock again with "cleat plugin lock"`)
	require.ErrorContains(t, mover.CheckProvides(nil),
		"it does not provide BackupItemAction example.io/mover, BackupItemActionV2 example.io/mover, ")
}

func TestASumIsThatOfSha256sum(t *testing.T) {
	t.Parallel()
	sum, err := pluginlock.Sum(strings.NewReader("abc"))
	require.NoError(t, err)
	require.Equal(t, sumB, sum)
}

func TestAWrongLockIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	const top = "apiVersion: cleat.dev/v1\nplugins:\n"
	plugin := func(path, sum, provides string) string {
		return top + "- path: " + path + "\n  sha256: " + sum + "\n  provides: " + provides + "\n"
	}
	for text, want := range map[string]string{
		"":                                       `l:1: it is empty, want apiVersion: cleat.dev/v1 and plugins`,
		"apiVersion: cleat.dev/v1\n\tplugins: x": `l:2: no YAML: found a tab character that violates indentation`,
		"- a":                                    `l:1: the lock is not a mapping, want the keys apiVersion, plugins`,
		"plugins: []":                            `l:1: the lock has no apiVersion, want the keys apiVersion, plugins`,
		"\napiVersion: v1\nplugins: []":          `l:2: apiVersion "v1", want cleat.dev/v1`,
		"apiVersion: cleat.dev/v1\nplugins:":     `l:2: plugins is not a list; one without elements is []`,
		top + "- []":                             `l:3: a plugin is not a mapping, want the keys path, sha256, provides`,
		top + "- path: a\n  sha265: b":           `l:4: unknown key "sha265" of a plugin, want path, sha256, provides`,
		top + "- path: a\n  path: b":             `l:4: key path of a plugin appears twice`,
		top + "- path: a\n  sha256: b":           `l:3: a plugin has no provides, want the keys path, sha256, provides`,
		top + "- path: &x a\n  sha256: *x\n  provides: []": `l:4: sha256 is an alias, want the value itself`,
		plugin("../a", sumA, "[]"):                         `l:3: path "../a": want a file below the plugin directory, like vendor/mover`,
		plugin("/a", sumA, "[]"):                           `l:3: path "/a": want a file below`,
		plugin("a//b", sumA, "[]"):                         `l:3: path "a//b": want a file below`,
		plugin(".", sumA, "[]"):                            `l:3: path ".": want a file below`,
		plugin(`"a\nb"`, sumA, "[]"):                       `l:3: path "a\nb": want a file below`,
		plugin("[a]", sumA, "[]"):                          `l:3: path "": want a file below`,
		plugin("a", strings.ToUpper(sumA), "[]"): `l:4: sha256 "` + strings.ToUpper(sumA) +
			`": want 64 hexadecimal digits in lower case, as sha256sum prints them`,
		plugin("a", sumA, "none"):                                                                     `l:5: provides is not a list; one without elements is []`,
		plugin("a", sumA, "[{kind: A, version: 0, name: n}]"):                                         `l:5: version "0": want a number from 1`,
		plugin("a", sumA, "[{kind: A, version: x, name: n}]"):                                         `l:5: version "x": want a number from 1`,
		plugin("a", sumA, "[{kind: '', version: 1, name: n}]"):                                        `l:5: kind "": want a kind like BackupItemAction`,
		plugin("a", sumA, "[{kind: AV2, version: 1, name: n}]"):                                       `l:5: kind "AV2": want the version apart, kind: A and version: 2`,
		plugin("a", sumA, "[{kind: A, version: 1, name: ''}]"):                                        `l:5: name "": want the name of a plugin, like example.io/mover`,
		plugin("a", sumA, "[{kind: A, version: 1}]"):                                                  `l:5: a line of provides has no name, want the keys kind, version, name`,
		plugin("a", sumA, "\n  - {kind: A, version: 2, name: n}\n  - {kind: A, version: 2, name: n}"): `l:7: AV2 n is listed twice in a`,
		plugin("a", sumA, "[]") +
			plugin("a", sumB, "[]")[len(top):]: `l:6: path "a" is in line 3 already`,
		plugin("a", sumA, "[]") + "---\n" +
			top: `l:6: a second document, want one`,
	} {
		_, err := pluginlock.Parse("l", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
	huge := filepath.Join(t.TempDir(), "huge")
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, 17<<20))
	_, err := pluginlock.Read(huge)
	require.ErrorContains(t, err, "it has more than 16 MiB, which no lock has")
}

func FuzzParse(f *testing.F) {
	f.Add(written)
	f.Add("apiVersion: cleat.dev/v1\nplugins: []\n")
	f.Add("apiVersion: cleat.dev/v1\nplugins:\n- {path: \"\\u2028é\", sha256: " + sumA +
		", provides: [{kind: \"1\", version: 007, name: \"~\"}]}\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		lock, err := pluginlock.Parse("l", []byte(text))
		if err != nil {
			require.Regexp(t, `^l:[1-9][0-9]*: .`, err.Error())
			return
		}
		data, err := lock.Marshal()
		require.NoError(t, err)
		again, err := pluginlock.Parse("l", data)
		require.NoError(t, err)
		require.Len(t, again.Plugins, len(lock.Plugins))
		for i := range lock.Plugins {
			require.Equal(t, lock.Plugins[i], again.Plugins[i])
		}
	})
}
