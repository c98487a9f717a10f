package manifest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

func openBytes(t testing.TB, file []byte) (*File, error) {
	t.Helper()
	return Open(t.Context(), NewRanger(bytes.NewReader(file), int64(len(file))))
}

// throughIndex reads all items by the index.
func throughIndex(t testing.TB, file []byte) ([]*Item, error) {
	t.Helper()
	f, err := openBytes(t, file)
	if err != nil {
		return nil, err
	}
	if _, err := f.Header(t.Context()); err != nil {
		return nil, err
	}
	return all(f.Items(t.Context(), Ref{}))
}

// Damage is an error, or it is harmless: no items are wrong, none is missing.
func TestAcceptManifest_Hostile(t *testing.T) {
	t.Parallel()
	items := sample(3)
	file := written(t, Options{}, items...)
	plain := gunzip(t, file)

	t.Run("truncated", func(t *testing.T) {
		t.Parallel()
		for n := range len(file) {
			_, err := throughIndex(t, file[:n])
			require.Error(t, err, "%d bytes", n)
			read, err := readAll(bytes.NewReader(file[:n]))
			if n == len(file)-footerSize {
				requireItems(t, items, read) // the whole document is there
				continue
			}
			require.Error(t, err, "%d of %d bytes", n, len(file))
		}
		for n := range bytes.TrimRight(plain, "\n}") {
			_, err := readAll(bytes.NewReader(plain[:n]))
			require.Error(t, err, "%d of %d bytes", n, len(plain))
		}
	})
	t.Run("flipped", func(t *testing.T) {
		t.Parallel()
		for i := range len(file) * 8 {
			damaged := slices.Clone(file)
			damaged[i/8] ^= 1 << (i % 8)
			if read, err := readAll(bytes.NewReader(damaged)); err == nil {
				requireItems(t, items, read)
			}
			if read, err := throughIndex(t, damaged); err == nil {
				requireItems(t, items, read)
			}
		}
	})
	for name, test := range map[string]struct{ replace, with, want string }{
		"version 9":  {`"manifest":1`, `"manifest":9`, "version 9, this program knows versions up to 1"},
		"no version": {`"manifest":1,`, ``, "has no version"},
		"not sorted": {`"name":"web-000000"`, `"name":"web-000009"`,
			"web-000001.json comes after pods/team-000/v1/web-000009.json"},
		"twice":            {`"name":"web-000001"`, `"name":"web-000000"`, "each once"},
		"wrong count":      {`"count":3`, `"count":4`, "3 items"},
		"no count":         {`,"count":3`, ``, "does not say how many items"},
		"wrong index":      {`"items":3}`, `"items":2}`, "the index has 2 items"},
		"impossible index": {`"items":3}`, `"items":-3}`, "no block can have -3 items"},
		"a name of a path": {`"name":"web-000000"`, `"name":"../x"`, "without control characters and slashes"},
		"an empty name":    {`"name":"web-000000"`, `"name":""`, "the name of item"},
		"an item of null":  {`"items":[` + "\n", `"items":[null,`, "item 1"},
		"items of null":    {`"items":[` + "\n", `"items":null,"x":[`, "want [, got <nil>"},
		"wrong type":       {`"name":"web-000001"`, `"name":7`, "item 2"},
		"something after":  {`"count":3}`, `"count":3}{}`, "comes after its end"},
		"long item": {`"name":"web-000001"`, `"x":"` + strings.Repeat("x", 3*MaxLine) + `","name":"web-000001"`,
			"longer than"},
		"a bomb":            {`"items":[` + "\n", `"items":[` + strings.Repeat(" ", 3*MaxLine), "longer than"},
		"deep":              {`"backup"`, `"x":` + strings.Repeat("[", 20000), "manifest"},
		"not JSON":          {`{"manifest"`, `manifest`, "at byte"},
		"a field unclosed":  {`"count":3}`, `"count":3`, "unexpected EOF"},
		"a version of text": {`"manifest":1`, `"manifest":"1"`, "manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, string(plain), test.replace)
			changed := strings.Replace(string(plain), test.replace, test.with, 1)
			for _, input := range [][]byte{[]byte(changed), gzipped(t, []byte(changed))} {
				_, err := readAll(bytes.NewReader(input))
				require.ErrorContains(t, err, test.want)
			}
		})
	}
	t.Run("unknown fields", func(t *testing.T) {
		t.Parallel()
		more := strings.NewReplacer(`"backup":{`, `"x":[{"y":[1]},null,"z"],"backup":{"x":{},`, `"kind":`,
			`"x":{"y":[]},"kind":`,
			`"count":3`, `"x":{"items":[]},"count":3`).Replace(string(plain))
		read, err := readAll(strings.NewReader(more))
		require.NoError(t, err)
		requireItems(t, items, read)
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		for _, input := range []string{"", "\x1f", "\x1f\x8b", "null", "[]", "{}", "0", strings.Repeat("[", 1<<20)} {
			_, err := readAll(strings.NewReader(input))
			require.Error(t, err, "%.20q", input)
			_, err = throughIndex(t, []byte(input))
			require.ErrorIs(t, err, ErrNoIndex)
		}
	})
	t.Run("graph", func(t *testing.T) {
		t.Parallel()
		circle := sample(2)
		circle[0].OwnerUIDs, circle[1].OwnerUIDs = []string{circle[1].UID}, []string{circle[0].UID, "not-there"}
		m, _, err := Load(bytes.NewReader(written(t, Options{}, circle...)))
		require.NoError(t, err)
		waves, cycles := m.Graph().Waves()
		require.Len(t, waves, 2)
		require.Len(t, cycles, 1)
		require.Equal(t, m.Index[circle[1].UID].Owners(), []*Item{m.Index[circle[0].UID]})

		circle[1].UID = circle[0].UID
		m, _, err = Load(bytes.NewReader(written(t, Options{}, circle...)))
		require.NoError(t, err)
		require.Len(t, m.Index, 1)
		require.Len(t, m.Set(), 2)
	})
}

// lying returns a file of several blocks in which a line of the index, or of its parts, is another one.
func lying(t *testing.T, roots bool, change func(*block)) []byte {
	t.Helper()
	file := &blocks{out: &counter{out: io.Discard}, gzip: gzip.NewWriter(nil)}
	var out bytes.Buffer
	file.out = &counter{out: &out}
	require.NoError(t, file.begin(Header{FormatVersion: FormatVersion, Backup: Backup{Name: "nightly"}}))
	for _, item := range sample(3 * blockItems) {
		var line bytes.Buffer
		require.NoError(t, encoder(&line).Encode(item))
		require.NoError(t, file.add(bytes.TrimSpace(line.Bytes())))
	}
	if !roots {
		change(&file.index[1])
		require.NoError(t, file.end())
		return out.Bytes()
	}
	require.NoError(t, file.member([]byte(indexStart)))
	root := block{At: file.out.written, First: file.index[0].First, Items: 3}
	require.NoError(t, file.member(encodeBlocks(file.index, false)))
	root.Size = file.out.written - root.At
	change(&root)
	at := file.out.written
	require.NoError(t, file.member(fmt.Appendf(nil, "%s%s],\"count\":%d}\n", rootsStart,
		encodeBlocks([]block{root}, false), file.count)))
	return append(out.Bytes(), encodeFooter(at, file.out.written-at)...)
}

func TestIndexThatLiesIsAnError(t *testing.T) {
	t.Parallel()
	for _, roots := range []bool{false, true} {
		truth := lying(t, roots, func(*block) {})
		read, err := throughIndex(t, truth)
		require.NoError(t, err)
		require.Len(t, read, 3*blockItems)
		for name, change := range map[string]func(*block){
			"outside":       func(b *block) { b.At = 1 << 40 },
			"before":        func(b *block) { b.At = -1 },
			"overflow":      func(b *block) { b.At = 1<<63 - 1 },
			"overlapping":   func(b *block) { b.At-- },
			"gap":           func(b *block) { b.At++ },
			"too long":      func(b *block) { b.Size++ },
			"too short":     func(b *block) { b.Size-- },
			"of no length":  func(b *block) { b.Size = 0 },
			"huge":          func(b *block) { b.Size = 1 << 50 },
			"wrong first":   func(b *block) { b.First.Name = "web-000001" },
			"later first":   func(b *block) { b.First.Name = "zzz" },
			"fewer items":   func(b *block) { b.Items-- },
			"no items":      func(b *block) { b.Items = 0 },
			"more items":    func(b *block) { b.Items++ },
			"another group": func(b *block) { b.First.Group = "zzz" },
		} {
			if roots && strings.HasSuffix(name, "er items") {
				continue // how many lines a part has does not matter
			}
			if roots && name == "more items" {
				continue
			}
			_, err := throughIndex(t, lying(t, roots, change))
			require.Error(t, err, "%s, roots: %v", name, roots)
		}
	}
}

func TestFileReadsSingleItems(t *testing.T) {
	t.Parallel()
	items := sample(20_000)
	for i, item := range items {
		if i%3 == 0 {
			item.APIGroup, item.Resource, item.ItemKind = "apps", "deployments", "Deployment"
		}
		item.Name += pickName(i)
	}
	slices.SortFunc(items, compareItems)
	file := written(t, Options{}, items...)
	f, err := openBytes(t, file)
	require.NoError(t, err)
	header, err := f.Header(t.Context())
	require.NoError(t, err)
	require.Equal(t, Header{FormatVersion: FormatVersion, Backup: Backup{Name: "nightly"},
		OmittedAnnotations: OmittedByDefault()}, header)
	for i := 0; i < len(items); i += 53 {
		got, err := f.Get(t.Context(), items[i].Ref())
		require.NoError(t, err)
		require.Equal(t, items[i], got)
	}
	for _, ref := range []Ref{{Resource: "aaa", Name: "a"}, {Group: "zzz", Resource: "zzz", Name: "z"},
		{Resource: "pods", Namespace: "team-000", Name: "no"}} {
		_, err := f.Get(t.Context(), ref)
		require.ErrorIs(t, err, ErrNoItem)
	}
	_, err = f.Get(t.Context(), Ref{UID: "u"})
	require.ErrorContains(t, err, "by its resource and name")

	for _, ref := range []Ref{{}, {Resource: "pods"}, {Group: "apps", Resource: "deployments"},
		{Resource: "pods", Namespace: "team-007"}, {Resource: "none"}} {
		var want []*Item
		for _, item := range items {
			if ref.Resource == "" || item.Resource == ref.Resource && (ref.Namespace == "" || item.Namespace == ref.Namespace) {
				want = append(want, item)
			}
		}
		got, err := all(f.Items(t.Context(), ref))
		require.NoError(t, err)
		requireItems(t, want, got)
	}

	_, err = openBytes(t, gzipped(t, gunzip(t, file)))
	require.ErrorIs(t, err, ErrNoIndex)
	empty, err := openBytes(t, written(t, Options{}))
	require.NoError(t, err)
	_, err = empty.Get(t.Context(), Ref{Resource: "pods", Name: "a"})
	require.ErrorIs(t, err, ErrNoItem)
}

// pickName returns the end of a name that JSON writers encode in different ways.
func pickName(i int) string { return []string{"", "<&>", "\"\\", "ü\u2028"}[i%4] }

func FuzzReader(f *testing.F) {
	f.Add(written(f, Options{}, sample(2)...))
	f.Add(gunzip(f, written(f, Options{}, sample(2)...)))
	f.Fuzz(func(t *testing.T, input []byte) {
		items, err := readAll(bytes.NewReader(input))
		if err == nil {
			require.True(t, slices.IsSortedFunc(items, compareItems))
			again, err := readAll(bytes.NewReader(written(t, Options{}, items...)))
			require.NoError(t, err)
			require.Len(t, again, len(items))
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(written(f, Options{}, sample(2)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		file, err := openBytes(t, input)
		if err != nil {
			return
		}
		_, _ = file.Header(t.Context())
		_, _ = file.Get(t.Context(), sample(1)[0].Ref())
		items, err := all(file.Items(t.Context(), Ref{}))
		if err == nil {
			require.True(t, slices.IsSortedFunc(items, compareItems))
		}
	})
}

func FuzzFooter(f *testing.F) {
	f.Add(encodeFooter(100, 20), int64(100+20+footerSize))
	f.Fuzz(func(t *testing.T, tail []byte, total int64) {
		offset, size, err := decodeFooter(tail, total)
		if err == nil {
			require.Positive(t, offset)
			require.Positive(t, size)
			require.Equal(t, total, offset+size+footerSize)
			require.Equal(t, encodeFooter(offset, size), tail[len(tail)-footerSize:])
		}
	})
}
