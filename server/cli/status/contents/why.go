package contents

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Explanation is how an item came into a backup, and what depends on it.
type Explanation struct {
	Item      manifest.Ref `json:"item"`
	Chain     []Step       `json:"chain"`
	Referrers []Referrer   `json:"referrers"`
	Next      string       `json:"next,omitempty"` // for the page of Referrers after this one
}

// Step is how one item of the chain came into the backup.
type Step struct {
	Item     manifest.Ref       `json:"item"`
	Included manifest.Inclusion `json:"included,omitzero"`
	// Ends is why the chain ends here although the item was requested for another one.
	Ends string `json:"ends,omitempty"`
}

// Sentence returns how the item of the step came into the backup.
func (s *Step) Sentence() string {
	if s.Ends != "" {
		return s.Ends
	}
	return Because(s.Included)
}

// Because returns how an item came into a backup, as a part of a sentence.
func Because(i manifest.Inclusion) string {
	of := "another item"
	if i.Of != nil {
		of = NameOf(*i.Of)
	}
	switch i.By {
	case manifest.ByFilters:
		return "the filters of the backup select it"
	case manifest.ByOrder:
		return "the backup names it in orderedResources"
	case manifest.ByAction:
		return fmt.Sprintf("the action %s has requested it for %s", layout.OrNone(i.Plugin), of)
	case manifest.ByBlock:
		return fmt.Sprintf("the item block action %s has put it into the block of %s", layout.OrNone(i.Plugin), of)
	case manifest.ByContent:
		return "it is the namespace or the definition of other items"
	case "":
		return "nobody has recorded why"
	default:
		return i.By
	}
}

// longestChain is the number of items of a chain that are shown. A manifest may hold a chain of any length.
const longestChain = 100

// Why returns how an item came into the backup, with a page of what depends on it. The manifest gets an index for that.
func (m *Manifest) Why(ctx context.Context, name itemname.Name, referrers Page) (*Explanation, error) {
	item, err := m.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	doc := &Explanation{Item: item.Ref(), Referrers: []Referrer{}}
	passed := map[string]bool{}
	for next := item; next != nil; {
		passed[NameOf(next.Ref())] = true
		doc.Chain = append(doc.Chain, Step{Item: next.Ref(), Included: next.Included})
		of := next.Included.Of
		if next = nil; of == nil {
			break
		}
		ends := ""
		switch {
		case passed[NameOf(*of)]:
			ends = "it is requested in a circle"
		case len(doc.Chain) == longestChain:
			ends = "the chain goes on"
		default:
			found, err := m.resolve(ctx, []manifest.Ref{*of})
			if err != nil {
				return nil, err
			}
			if next = found[*of]; next == nil {
				ends = "it is not in the backup"
			}
		}
		if ends != "" {
			doc.Chain = append(doc.Chain, Step{Item: *of, Ends: ends})
		}
	}
	found, next, err := m.referrers(ctx, item, referrers)
	doc.Referrers, doc.Next = append(doc.Referrers, found...), next
	return doc, err
}
