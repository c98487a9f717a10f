package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// pod returns an item, with random things about it.
func pod(random *rand.Rand, namespace, name string) *Item {
	item := &Item{
		APIVersion: "v1", Resource: "pods", ItemKind: "Pod", Namespace: namespace, Name: name, UID: "uid-" + namespace + "-" +
			name,
		Labels: map[string]string{"app": fmt.Sprint(random.IntN(3))}, Annotations: map[string]string{"note": "<\u2028ü>"},
		Included: Inclusion{By: ByFilters},
	}
	item.AddOwner("apps/v1", "ReplicaSet", "web", "uid-of-web", true)
	return item
}

// sample returns items in the order of a manifest.
func sample(count int) []*Item {
	random := rand.New(rand.NewPCG(1, 2))
	var items []*Item
	for i := range count {
		items = append(items, pod(random, fmt.Sprintf("team-%03d", i/100), fmt.Sprintf("web-%06d", i)))
	}
	return items
}

func written(t testing.TB, options Options, items ...*Item) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Backup: Backup{Name: "nightly"}, OmittedAnnotations: OmittedByDefault()}, options)
	require.NoError(t, err)
	for _, item := range items {
		require.NoError(t, w.Add(item))
	}
	require.NoError(t, w.Close())
	return file.Bytes()
}

// all returns the items until their end or an error.
func all(items iter.Seq2[*Item, error]) (list []*Item, err error) {
	for item, err := range items {
		if err != nil {
			return list, err
		}
		list = append(list, item)
	}
	return list, nil
}

func readAll(file io.Reader) ([]*Item, error) {
	r, err := NewReader(file)
	if err != nil {
		return nil, err
	}
	return all(r.Items())
}

// requireItems does not print all items, of which there may be many.
func requireItems(t *testing.T, want, got []*Item) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i], got[i])
	}
}

func shuffled(items []*Item, seed uint64) []*Item {
	mixed := append([]*Item(nil), items...)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	return mixed
}

func TestBytesDependOnTheItemsAlone(t *testing.T) {
	t.Parallel()
	items := sample(3000)
	want := written(t, Options{}, items...)
	for seed, memory := range []int{0, 1, 1 << 10, 100 << 10, 1 << 20} {
		require.Equal(t, want, written(t, Options{Dir: t.TempDir(), Memory: memory}, shuffled(items, uint64(seed))...),
			"memory %d", memory)
	}
}

func TestReaderReadsWhatWriterWrote(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 1, blockItems - 1, blockItems, blockItems + 1, 3 * blockItems, blockItems*indexLines +
		1} {
		items := sample(count)
		file := written(t, Options{Memory: 1 << 20}, items...)
		read, err := readAll(bytes.NewReader(file))
		require.NoError(t, err)
		requireItems(t, items, read)

		// Also when somebody has compressed it again, or not at all.
		plain := gunzip(t, file)
		require.True(t, json.Valid(plain))
		read, err = readAll(bytes.NewReader(plain))
		require.NoError(t, err)
		requireItems(t, items, read)
		read, err = readAll(bytes.NewReader(gzipped(t, plain)))
		require.NoError(t, err)
		requireItems(t, items, read)
	}
}

// Blocks may begin with an item that lacks a field that the first item of the block before has.
func TestItemsOfAllScopesAreFoundByTheIndex(t *testing.T) {
	t.Parallel()
	var items []*Item
	for i := range 3 * blockItems {
		name := fmt.Sprintf("x-%06d", i)
		items = append(items, &Item{APIVersion: "v1", Resource: "configmaps", ItemKind: "ConfigMap", Namespace: "shop",
			Name: name}, &Item{APIVersion: "v1", Resource: "persistentvolumes", ItemKind: "PersistentVolume", Name: name})
	}
	f, err := openBytes(t, written(t, Options{}, items...))
	require.NoError(t, err)
	for _, item := range items {
		ref := item.Ref()
		found, err := f.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, item, found)
	}
	blocks, err := f.Blocks(t.Context())
	require.NoError(t, err)
	require.Len(t, blocks, 6)
	read, err := all(f.Read(t.Context(), blocks[2:5]))
	require.NoError(t, err)
	require.Len(t, read, 3*blockItems)
	require.Zero(t, read[0].Ref().Compare(Ref{Resource: "configmaps", Namespace: "shop", Name: blocks[2].First.Name}))
	require.Equal(t, int64(blockItems), blocks[5].Items)
}

func TestLastOfTheSameItemCounts(t *testing.T) {
	t.Parallel()
	for _, memory := range []int{0, 1} { // in memory, and each in a run of its own
		var items []*Item
		for i := range 5 {
			item := *sample(1)[0]
			item.UID = fmt.Sprint("uid-", i)
			items = append(items, &item)
		}
		read, err := readAll(bytes.NewReader(written(t, Options{Memory: memory}, items...)))
		require.NoError(t, err)
		require.Equal(t, items[4:], read)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, end := range []func(*Writer){func(w *Writer) { require.NoError(t, w.Close()) }, (*Writer).Abort} {
		w, err := NewWriter(io.Discard, Header{Backup: Backup{Name: "nightly"}}, Options{Dir: dir, Memory: 1})
		require.NoError(t, err)
		for _, item := range sample(3) {
			require.NoError(t, w.Add(item))
		}
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, files) // not even now
		end(w)
		w.Abort()
		require.ErrorIs(t, w.Add(sample(1)[0]), errClosed)
		require.ErrorIs(t, w.Close(), errClosed)
	}
}

type failing struct{ after int }

func (f *failing) Write(content []byte) (int, error) {
	if f.after -= len(content); f.after < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(content), nil
}

func TestFailureToWriteIsReported(t *testing.T) {
	t.Parallel()
	size := len(written(t, Options{}, sample(3)...))
	for after := range size {
		w, err := NewWriter(&failing{after}, Header{Backup: Backup{Name: "nightly"}, OmittedAnnotations: OmittedByDefault()},
			Options{})
		require.NoError(t, err)
		for _, item := range sample(3) {
			require.NoError(t, w.Add(item))
		}
		require.ErrorContains(t, w.Close(), "the disk is full", "after %d bytes", after)
	}
	w, err := NewWriter(io.Discard, Header{Backup: Backup{Name: "nightly"}}, Options{Dir: "/no/such/directory", Memory: 1})
	require.NoError(t, err)
	require.NoError(t, w.Add(sample(1)[0]))
	require.ErrorContains(t, w.Add(sample(1)[0]), "/no/such/directory")
	require.ErrorContains(t, w.Close(), "/no/such/directory")
	_, err = NewWriter(io.Discard, Header{}, Options{})
	require.ErrorContains(t, err, "needs the name of its backup")
}

func TestItemsAtTheLimits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Item){
		"":                              func(i *Item) { i.Name = strings.Repeat("n", 253) },
		"labels":                        func(i *Item) { i.Labels = map[string]string{"l": strings.Repeat("x", 256<<10)} },
		"the name of item":              func(i *Item) { i.Name = strings.Repeat("n", maxName+1) },
		"is empty":                      func(i *Item) { i.Resource = "" },
		"without control characters":    func(i *Item) { i.Namespace = "a\x00b" },
		"and slashes":                   func(i *Item) { i.Name = "../x" },
		"in the manifest, want at most": func(i *Item) { i.Labels = map[string]string{"l": strings.Repeat("x", MaxLine)} },
	} {
		item := sample(1)[0]
		change(item)
		w, err := NewWriter(io.Discard, Header{Backup: Backup{Name: "nightly"}}, Options{})
		require.NoError(t, err)
		err = w.Add(item)
		if name == "" || name == "labels" {
			require.NoError(t, err)
			read, err := readAll(bytes.NewReader(written(t, Options{}, item)))
			require.NoError(t, err)
			require.Equal(t, []*Item{item}, read)
		} else {
			require.ErrorContains(t, err, name)
		}
		require.NoError(t, w.Add(sample(2)[1])) // the writer goes on
		require.NoError(t, w.Close())
	}
}

func TestFilesMatchTheSchema(t *testing.T) {
	t.Parallel()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource("schema.json", document))
	schema, err := compiler.Compile("schema.json")
	require.NoError(t, err)
	for _, count := range []int{0, 1, 3 * blockItems} {
		manifest, err := jsonschema.UnmarshalJSON(bytes.NewReader(gunzip(t, written(t, Options{}, sample(count)...))))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(manifest))
	}
	for _, wrong := range []string{`{}`,
		`{"manifest":9,"formatVersion":"1.2.0","backup":{"name":"a"},"items":[],"count":0}`} {
		manifest, err := jsonschema.UnmarshalJSON(strings.NewReader(wrong))
		require.NoError(t, err)
		require.Error(t, schema.Validate(manifest))
	}
}

func gunzip(t testing.TB, file []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	return content
}

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return file.Bytes()
}
