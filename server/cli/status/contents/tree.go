package contents

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// Tree is a page of the branches of a backup: its namespaces, or the resources of a namespace or of all.
type Tree struct {
	Branches []Branch `json:"branches"`
	// Items is the number of selected items of all branches, those of other pages too.
	Items int64 `json:"items"`
	// AtLeast is set if more items are selected than could be counted in the time that a page may take.
	AtLeast bool   `json:"atLeast,omitempty"`
	Next    string `json:"next,omitempty"` // for the page after this one; empty if there is none
}

// Branch is a namespace, or a resource, and the number of its selected items. The cluster-scoped items have the branch
// with neither.
type Branch struct {
	Namespace string `json:"namespace,omitempty"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Items     int64  `json:"items"`
}

// Namespaces returns a page of the namespaces with selected items, by their names; the cluster-scoped items come before
// them.
func (m *Manifest) Namespaces(ctx context.Context, s *Selection, page Page) (*Tree, error) {
	return m.tree(ctx, s, page, func(r run) (Branch, bool) { return Branch{Namespace: r.Namespace}, true })
}

// Resources returns a page of the resources with selected items, by group and resource: of a namespace, empty for the
// cluster-scoped ones, or of all if it is nil.
func (m *Manifest) Resources(ctx context.Context, s *Selection, namespace *string, page Page) (*Tree, error) {
	return m.tree(ctx, s, page, func(r run) (Branch, bool) {
		return Branch{Group: r.Group, Resource: r.Resource}, namespace == nil || *namespace == r.Namespace
	})
}

// tree returns a page of the branches to which of assigns the items.
func (m *Manifest) tree(ctx context.Context, s *Selection, page Page, of func(run) (Branch, bool)) (*Tree, error) {
	if err := page.check(); err != nil {
		return nil, err
	}
	first, err := parseBranch(page.After)
	if err != nil {
		return nil, err
	}
	tree := &Tree{Branches: []Branch{}}
	for r, err := range m.runs(ctx, s, page.Limit > 0) {
		if errors.Is(err, errPaused) {
			tree.AtLeast = true
			break
		}
		if err != nil {
			return nil, err
		}
		branch, in := of(r)
		if !in {
			continue
		}
		tree.Items += r.Items
		if page.After != "" && branch.compare(first) <= 0 {
			continue
		}
		at, found := slices.BinarySearchFunc(tree.Branches, branch, Branch.compare)
		if !found {
			if page.full(len(tree.Branches)) { // only the first are kept, so those counted from the first item on
				if tree.Next = "more"; at == len(tree.Branches) {
					continue
				}
				tree.Branches = tree.Branches[:len(tree.Branches)-1]
			}
			tree.Branches = slices.Insert(tree.Branches, at, branch)
		}
		tree.Branches[at].Items += r.Items
	}
	if tree.Next != "" {
		tree.Next = tree.Branches[len(tree.Branches)-1].position()
	}
	return tree, nil
}

func (b Branch) compare(other Branch) int {
	return cmp.Or(strings.Compare(b.Namespace, other.Namespace), strings.Compare(b.Group, other.Group),
		strings.Compare(b.Resource, other.Resource))
}

// position returns the branch as the Next of a page. No part of it has a slash.
func (b Branch) position() string {
	return strings.Join([]string{b.Namespace, b.Group, b.Resource}, "/")
}

func parseBranch(text string) (Branch, error) {
	if text == "" {
		return Branch{}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Branch{}, WrongPage{text}
	}
	return Branch{Namespace: parts[0], Group: parts[1], Resource: parts[2]}, nil
}

// runs yields how many selected items follow each other in each resource and namespace. The error is errPaused if more
// items would have to be looked at than a page may.
func (m *Manifest) runs(ctx context.Context, s *Selection, brief bool) iter.Seq2[run, error] {
	return func(yield func(run, error) bool) {
		now, err := m.state(ctx, true)
		if err != nil {
			yield(run{}, err)
			return
		}
		if now.index == nil || s.needsItems() {
			m.countedRuns(ctx, s, manifest.Ref{}, brief)(yield)
			return
		}
		for r, err := range now.index.all() {
			in := false
			if err == nil {
				in, err = s.includes(r.Group, r.Resource, r.version, r.kind, r.Namespace)
			}
			if err != nil {
				yield(run{}, m.failed(err))
				return
			}
			counted := func(yield func(run, error) bool) { yield(r, nil) }
			if in && s.needsItemsOf(r) {
				counted = m.countedRuns(ctx, s, manifest.Ref{Group: r.Group, Resource: r.Resource}, brief)
			}
			for r, err := range counted {
				if in && (!yield(r, err) || err != nil) {
					return
				}
			}
		}
	}
}

// countedRuns is runs, by looking at the items within a ref.
func (m *Manifest) countedRuns(ctx context.Context, s *Selection, within manifest.Ref,
	brief bool) iter.Seq2[run, error] {
	return func(yield func(run, error) bool) {
		w := walk{of: m, selection: s, within: within}
		if brief {
			w.most = maxScan
		}
		var last []run
		for item, err := range w.items(ctx) {
			if err != nil {
				if len(last) == 0 || yield(last[0], nil) {
					yield(run{}, err)
				}
				return
			}
			if last = appendToRuns(last, item); len(last) > 1 {
				if !yield(last[0], nil) {
					return
				}
				last = append(last[:0], last[1])
			}
		}
		if len(last) > 0 {
			yield(last[0], nil)
		}
	}
}
