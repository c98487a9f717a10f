package contents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// Page says which part of a list is asked for.
type Page struct {
	After string // the Next of the page before; empty for the first page
	Limit int    // the number of entries; 0 for all
}

// WrongPage is the error about a page that no page before has as its next one.
type WrongPage struct{ After string }

func (w WrongPage) Error() string {
	return fmt.Sprintf("the page after %q: want what the page before has as its next one", w.After)
}

func (p Page) check() error {
	if p.Limit < 0 {
		return fmt.Errorf("a page of %d entries: want a number that is not negative", p.Limit)
	}
	return nil
}

// full reports whether a page has as many entries as were asked for.
func (p Page) full(entries int) bool { return p.Limit > 0 && entries >= p.Limit }

// maxScan is how many items are looked at for one page, so that a page comes in time however few items the filters
// select.
const maxScan = 10_000

// List is a page of items.
type List struct {
	Items []*manifest.Item `json:"items"`
	// Next asks for the page after this one, which may be empty; it is empty if there is none. A page can have fewer items
	// than it may, or none, and a Next: then no more were found in the time that a page may take.
	Next string `json:"next,omitempty"`
}

// List returns a page of the selected items. within restricts them to a resource, or to a resource and namespace, if it
// has one.
func (m *Manifest) List(ctx context.Context, s *Selection, within manifest.Ref, page Page) (*List, error) {
	w := walk{of: m, selection: s, within: within}
	if err := w.startAt(page); err != nil {
		return nil, err
	}
	list := &List{Items: []*manifest.Item{}}
	for item, err := range w.items(ctx) {
		if errors.Is(err, errPaused) {
			list.Next = w.at
			break
		}
		if err != nil {
			return nil, err
		}
		if page.full(len(list.Items)) {
			list.Next = after(list.Items[len(list.Items)-1])
			break
		}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

// Items yields all selected items, in the order of the manifest. Nothing comes after an error.
func (m *Manifest) Items(ctx context.Context, s *Selection) iter.Seq2[*manifest.Item, error] {
	w := walk{of: m, selection: s}
	return w.items(ctx)
}

// errPaused is the error of a walk that has looked at as many items as it may.
var errPaused = errors.New("the walk has paused")

// walk goes through the items of a manifest.
type walk struct {
	of        *Manifest
	selection *Selection            // nil for all items
	within    manifest.Ref          // a resource, or a resource and namespace; all if it has no resource
	start     position              // no item up to it
	most      int                   // the number of items that are looked at; 0 for any
	tokens    func(*index) []uint32 // of which a block has one; nil for all blocks
	other     *Manifest             // whose items are left out, as far as they are the same; nil for none
	at        string                // the position of the last item that was looked at
}

// startAt makes the walk one for a page.
func (w *walk) startAt(page Page) (err error) {
	if err := page.check(); err != nil {
		return err
	}
	if page.Limit > 0 {
		w.most = maxScan
	}
	w.at = page.After
	w.start, err = parsePosition(page.After)
	return err
}

// items yields the items. Only blocks that may have some are read.
func (w *walk) items(ctx context.Context) iter.Seq2[*manifest.Item, error] {
	return func(yield func(*manifest.Item, error) bool) {
		now, err := w.of.state(ctx, true)
		if err != nil {
			yield(nil, err)
			return
		}
		wanted, err := w.wanted(now)
		if err != nil {
			yield(nil, w.of.failed(err))
			return
		}
		var same func(*manifest.Item) (bool, error)
		if w.other != nil {
			if same, err = w.same(ctx, now, wanted); err != nil {
				yield(nil, w.of.failed(err))
				return
			}
		}
		looked := 0
		for blocks := range together(now.blocks, wanted) {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			for item, err := range now.file.Read(ctx, blocks) {
				if err != nil {
					yield(nil, w.of.failed(err))
					return
				}
				isSame := false
				if same != nil { // of all items, because it can depend on the one before
					if isSame, err = same(item); err != nil {
						yield(nil, w.of.failed(err))
						return
					}
				}
				if isSame || !w.start.before(item) || !isWithin(item, w.within) {
					continue
				}
				if looked++; w.most > 0 && looked > w.most {
					yield(nil, errPaused)
					return
				}
				w.at = after(item)
				in := true
				if w.selection != nil {
					if in, err = w.selection.Match(item); err != nil {
						yield(nil, err)
						return
					}
				}
				if in && !yield(item, nil) {
					return
				}
			}
		}
	}
}

// wanted says for each block whether it is to be read.
func (w *walk) wanted(now state) ([]bool, error) {
	wanted := make([]bool, len(now.blocks))
	for i, b := range now.blocks {
		if i+1 < len(now.blocks) {
			next := now.blocks[i+1].First
			if w.start.Compare(next) > 0 || w.within.Resource != "" && beforeAll(next, w.within) {
				continue // all items are before what is asked for
			}
		}
		wanted[i] = w.within.Resource == "" || !afterAll(b.First, w.within)
	}
	if now.index == nil {
		return wanted, nil
	}
	if w.tokens != nil {
		if err := now.index.having(wanted, w.tokens(now.index)); err != nil {
			return nil, err
		}
	}
	if w.selection == nil || w.selection.filters.Everything() {
		return wanted, nil
	}
	return wanted, w.selection.restrict(wanted, now.index)
}

// together yields the wanted blocks, those that follow each other at once.
func together(blocks []manifest.Block, wanted []bool) iter.Seq[[]manifest.Block] {
	return func(yield func([]manifest.Block) bool) {
		for begin := 0; begin < len(blocks); begin++ {
			end := begin
			for end < len(blocks) && wanted[end] {
				end++
			}
			if end > begin && !yield(blocks[begin:end]) {
				return
			}
			begin = end
		}
	}
}

func isWithin(item *manifest.Item, ref manifest.Ref) bool {
	return ref.Resource == "" || item.APIGroup == ref.Group && item.Resource == ref.Resource &&
		(ref.Namespace == "" || item.Namespace == ref.Namespace)
}

// beforeAll reports whether an item with the ref first comes before all items within ref, or is the first of them.
func beforeAll(first, ref manifest.Ref) bool {
	ref.Name = ""
	return first.Compare(ref) <= 0
}

// afterAll reports whether an item with the ref first comes after all items within ref.
func afterAll(first, ref manifest.Ref) bool {
	if ref.Namespace == "" {
		first.Namespace = ""
	}
	first.Name, ref.Name = "", ""
	return first.Compare(ref) > 0
}

// position is a place in the order of a manifest: that of an item in one of its versions.
type position struct {
	manifest.Ref
	version string
}

// before reports whether an item comes after the position.
func (p position) before(item *manifest.Item) bool {
	order := p.Compare(item.Ref())
	return order < 0 || order == 0 && p.version < item.APIVersion
}

// after returns the position of an item as the Next of a page. No part of it has a slash.
func after(item *manifest.Item) string {
	return strings.Join([]string{item.APIGroup, item.Resource, item.Namespace, item.Name, item.APIVersion}, "/")
}

func parsePosition(text string) (position, error) {
	if text == "" {
		return position{}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 5 || slices.Contains([]string{parts[1], parts[3]}, "") {
		return position{}, WrongPage{text}
	}
	return position{manifest.Ref{Group: parts[0], Resource: parts[1], Namespace: parts[2], Name: parts[3]}, parts[4]}, nil
}
