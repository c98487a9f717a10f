package repository_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
)

func TestDamagedBlobsAreNamed(t *testing.T) {
	t.Parallel()
	const known = `{"tool":"https://github.com/kopia/kopia","uniqueID":"AQID"}`
	id, err := repository.ParseFormat([]byte(known))
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2, 3}, id)
	for text, want := range map[string]string{
		"":                   "kopia.repository is not JSON of kopia",
		`{"uniqueID": 1}`:    "kopia.repository is not JSON of kopia",
		`{"tool": "kopia"}`:  "kopia.repository has no uniqueID",
		`{"uniqueID": null}`: "kopia.repository has no uniqueID",
	} {
		_, err := repository.ParseFormat([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	require.NoError(t, repository.CheckSeal([]byte(`{"uniqueID":"AQID"}`), id))
	for text, want := range map[string]string{
		"{":                    "udmrepo.Repository is not JSON",
		`{"uniqueID":"AQIE"}`:  "udmrepo.Repository has another uniqueID than kopia.repository",
		`{"uniqueID":[1,2,3]}`: "",
	} {
		if err := repository.CheckSeal([]byte(text), id); want != "" {
			require.ErrorContains(t, err, want, text)
		}
	}
}

func TestDirectoriesAreParsed(t *testing.T) {
	t.Parallel()
	entries, err := repository.ParseDirectory(strings.NewReader(`{"stream":"kopia:directory","entries":[` +
		`{"name":"a","type":"f","obj":"kaa01"},{"name":"b","type":"d","obj":"kaa02"},{"name":"a","type":"s","obj":"aa03"}]}`))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.EqualValues(t, "s", entries[0].Type, "the last one counts")
	for text, want := range map[string]string{
		"":                         "it is not JSON of a directory",
		`{"stream":"kopia:other"}`: `its stream is "kopia:other", want "kopia:directory"`,
		`{"stream":"kopia:directory","entries":[null]}`: "it has an entry that is null",
	} {
		_, err := repository.ParseDirectory(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzDirectory(f *testing.F) {
	f.Add([]byte(`{"stream":"kopia:directory","entries":[{"name":"a","type":"f","mode":"0644","obj":"kaa01"}],"summary":{}}`))
	f.Add([]byte(`{"stream":"kopia:directory","entries":[null,{"name":"a"},{"name":"a"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := repository.ParseDirectory(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, one := range entries {
			require.False(t, names[one.Name], "%q is there twice", one.Name)
			names[one.Name] = true
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte(`{"uniqueID":"AQID"}`), []byte(`{"uniqueID":"AQID"}`))
	f.Add([]byte(`{`), []byte(`{"uniqueID":[]}`))
	f.Fuzz(func(t *testing.T, stored, seal []byte) {
		id, err := repository.ParseFormat(stored)
		if err != nil {
			return
		}
		require.NotEmpty(t, id)
		_ = repository.CheckSeal(seal, id)
	})
}
