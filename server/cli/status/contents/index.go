package contents

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// index says what each block of a manifest has. It is in temporary files, of which questions read the columns that they
// need from the beginning to the end: some 30 bytes for each item.
type index struct {
	kinds map[groupKind][]string // resources, sorted

	runs   column // see run
	names  column // the names of the items in lower case, each with a line feed
	tokens column // hashes of what items are found by, four bytes each, sorted
	prints column // see printOf, of the first version of each item, eight bytes each, sorted
}

// seed is for the hashes of all indexes, so that those of two manifests can be compared.
var seed = maphash.MakeSeed()

type groupKind struct{ group, kind string }

// column has a piece for each block.
type column struct {
	file *scratchFile
	ends []int64
}

// pieces yields the piece of each block, which is valid until the next.
func (c *column) pieces() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		const window = 256 << 10
		var buffer []byte
		begin, at := int64(0), int64(0) // of the buffer, of the piece
		for _, end := range c.ends {
			if end > begin+int64(len(buffer)) {
				begin = at
				size := min(max(end-at, window), c.file.size()-at)
				buffer = slices.Grow(buffer[:0], int(size))[:size]
				if _, err := c.file.file.ReadAt(buffer, at); err != nil {
					yield(nil, fmt.Errorf("read the index of the manifest: %w", err))
					return
				}
			}
			if !yield(buffer[at-begin:end-begin], nil) {
				return
			}
			at = end
		}
	}
}

// piece returns the piece of one block.
func (c *column) piece(i int) ([]byte, error) {
	begin := int64(0)
	if i > 0 {
		begin = c.ends[i-1]
	}
	piece := make([]byte, c.ends[i]-begin)
	if _, err := c.file.file.ReadAt(piece, begin); err != nil {
		return nil, fmt.Errorf("read the index of the manifest: %w", err)
	}
	return piece, nil
}

// entry is what the index has of one block.
type entry struct {
	runs          []run
	names, tokens []byte
	prints        []uint64     // of the first version of each item
	last          manifest.Ref // of the last item
}

// newIndex reads all items.
func newIndex(
	ctx context.Context, file *manifest.File, blocks []manifest.Block, s *scratch,
) (x *index, err error) {
	x = &index{kinds: map[groupKind][]string{}}
	var out [4]*bufferedColumn
	for i, c := range []*column{&x.runs, &x.names, &x.tokens, &x.prints} {
		f, failed := s.file()
		if failed != nil {
			return nil, failed
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, f.discard())
			}
		}()
		c.file = f
		out[i] = &bufferedColumn{column: c}
	}
	atOnce := runtime.GOMAXPROCS(0)
	entries := make([]entry, 8*atOnce)
	var last manifest.Ref
	for start := 0; start < len(blocks); start += len(entries) {
		part := blocks[start:min(start+len(entries), len(blocks))]
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(atOnce)
		for i := range part {
			group.Go(func() (err error) {
				if err := ctx.Err(); err != nil {
					return err
				}
				entries[i], err = x.entry(file.Read(ctx, part[i:i+1]))
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for i := range part {
			x.addKinds(entries[i].runs)
			e := &entries[i]
			if last.Compare(part[i].First) == 0 { // the block begins with another version
				e.prints = e.prints[1:]
			}
			last = e.last
			for k, piece := range [][]byte{encodeRuns(e.runs), e.names, e.tokens, encodePrints(e.prints)} {
				if err := out[k].add(piece); err != nil {
					return nil, fmt.Errorf("write the index of the manifest: %w", err)
				}
			}
		}
	}
	for _, c := range out {
		if err := c.flush(); err != nil {
			return nil, fmt.Errorf("write the index of the manifest: %w", err)
		}
	}
	return x, nil
}

// bufferedColumn writes a column.
type bufferedColumn struct {
	*column
	pending bytes.Buffer
}

func (c *bufferedColumn) add(piece []byte) error {
	c.pending.Write(piece)
	c.ends = append(c.ends, c.file.size()+int64(c.pending.Len()))
	if c.pending.Len() < 1<<20 {
		return nil
	}
	return c.flush()
}

func (c *bufferedColumn) flush() error {
	_, err := c.file.Write(c.pending.Bytes())
	c.pending.Reset()
	return err
}

func (x *index) entry(items iter.Seq2[*manifest.Item, error]) (e entry, err error) {
	var tokens []uint32
	for item, err := range items {
		if err != nil {
			return e, err
		}
		e.runs = appendToRuns(e.runs, item)
		e.names = append(append(e.names, strings.ToLower(item.Name)...), '\n')
		for key, value := range item.Labels {
			tokens = append(tokens, x.token("label", key), x.token("value", key, value))
		}
		if item.UID != "" {
			tokens = append(tokens, x.token("uid", item.UID))
		}
		for link := range linksOf(item) {
			tokens = append(tokens, x.tokenTo(link.To))
		}
		if ref := item.Ref(); len(e.prints) == 0 || e.last.Compare(ref) != 0 {
			e.prints, e.last = append(e.prints, printOf(item)), ref
		}
	}
	slices.Sort(tokens)
	for _, token := range slices.Compact(tokens) {
		e.tokens = binary.LittleEndian.AppendUint32(e.tokens, token)
	}
	return e, nil
}

func encodePrints(prints []uint64) (piece []byte) {
	for _, one := range slices.Sorted(slices.Values(prints)) {
		piece = binary.LittleEndian.AppendUint64(piece, one)
	}
	return piece
}

func (x *index) addKinds(runs []run) {
	for _, r := range runs {
		key := groupKind{r.Group, r.kind}
		if at, found := slices.BinarySearch(x.kinds[key], r.Resource); !found {
			x.kinds[key] = slices.Insert(x.kinds[key], at, r.Resource)
		}
	}
}

// token returns the hash of something that items are found by.
func (x *index) token(parts ...string) uint32 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, part := range parts {
		_, _ = h.WriteString(part) // a hash does not fail
		_ = h.WriteByte(0)
	}
	return uint32(h.Sum64()) //nolint:gosec // a part of the hash
}

// tokenTo returns the token of an item that has a link.
func (x *index) tokenTo(to manifest.Ref) uint32 {
	if to.UID != "" {
		return x.token("to", to.UID)
	}
	if to.Resource != "" {
		return x.token("to", to.Group, to.Resource, to.Namespace, to.Name)
	}
	return x.token("to kind", to.Group, to.Kind, to.Namespace, to.Name)
}

// tokensTo returns the tokens of which an item that has a link to one with ref has at least one.
func (x *index) tokensTo(ref manifest.Ref) []uint32 {
	byResource, byKind := ref, ref
	byResource.UID, byKind.UID, byKind.Resource = "", "", ""
	tokens := []uint32{x.tokenTo(byResource), x.tokenTo(byKind)}
	if ref.UID != "" {
		tokens = append(tokens, x.tokenTo(ref))
	}
	return tokens
}

// having sets those of wanted to false whose blocks have none of the tokens.
func (x *index) having(wanted []bool, tokens []uint32) error {
	i := 0
	for piece, err := range x.tokens.pieces() {
		if err != nil {
			return err
		}
		wanted[i] = wanted[i] && slices.ContainsFunc(tokens, func(token uint32) bool { return hasToken(piece, token) })
		i++
	}
	return nil
}

func hasToken(piece []byte, token uint32) bool {
	low, high := 0, len(piece)/4
	for low < high {
		middle := (low + high) / 2
		switch found := binary.LittleEndian.Uint32(piece[4*middle:]); {
		case found == token:
			return true
		case found < token:
			low = middle + 1
		default:
			high = middle
		}
	}
	return false
}

// run is how many items of a resource and namespace follow each other.
type run struct {
	Group, Resource, Namespace string
	version, kind              string // of the first
	Items                      int64
}

func appendToRuns(runs []run, item *manifest.Item) []run {
	if last := len(runs) - 1; last < 0 || !runs[last].continuedBy(item) {
		runs = append(runs, run{Group: item.APIGroup, Resource: item.Resource, Namespace: item.Namespace,
			version: item.APIVersion, kind: item.ItemKind})
	}
	runs[len(runs)-1].Items++
	return runs
}

func (r *run) continuedBy(item *manifest.Item) bool {
	return r.Group == item.APIGroup && r.Resource == item.Resource && r.Namespace == item.Namespace
}

func encodeRuns(runs []run) (piece []byte) {
	for _, r := range runs {
		piece = binary.AppendUvarint(piece, uint64(r.Items)) //nolint:gosec // a number of items
		for _, text := range []string{r.Group, r.Resource, r.Namespace, r.version, r.kind} {
			piece = append(binary.AppendUvarint(piece, uint64(len(text))), text...)
		}
	}
	return piece
}

// decodeRuns yields what encodeRuns has encoded.
func decodeRuns(piece []byte) iter.Seq[run] {
	number := func() uint64 {
		n, size := binary.Uvarint(piece)
		piece = piece[size:]
		return n
	}
	return func(yield func(run) bool) {
		for len(piece) > 0 {
			r := run{Items: int64(number())} //nolint:gosec // it was one
			for _, text := range []*string{&r.Group, &r.Resource, &r.Namespace, &r.version, &r.kind} {
				n := number()
				*text, piece = string(piece[:n]), piece[n:]
			}
			if !yield(r) {
				return
			}
		}
	}
}

// all yields the runs of the whole manifest.
func (x *index) all() iter.Seq2[run, error] {
	return func(yield func(run, error) bool) {
		var last run
		for piece, err := range x.runs.pieces() {
			if err != nil {
				yield(run{}, err)
				return
			}
			for r := range decodeRuns(piece) {
				if last.Group == r.Group && last.Resource == r.Resource && last.Namespace == r.Namespace {
					last.Items += r.Items
					continue
				}
				if last.Items > 0 && !yield(last, nil) {
					return
				}
				last = r
			}
		}
		if last.Items > 0 {
			yield(last, nil)
		}
	}
}

// linksOf yields the edges of an item, and one for each owner for which it has none.
func linksOf(item *manifest.Item) iter.Seq[manifest.Edge] {
	return func(yield func(manifest.Edge) bool) {
		for _, edge := range item.Edges {
			if edge.Type != manifest.More && !yield(edge) {
				return
			}
		}
		for _, uid := range item.OwnerUIDs {
			has := slices.ContainsFunc(item.Edges, func(e manifest.Edge) bool { return e.To.UID == uid })
			if !has && !yield(manifest.Edge{Type: manifest.Owner, To: manifest.Ref{UID: uid},
				Path: "metadata.ownerReferences"}) {
				return
			}
		}
	}
}
