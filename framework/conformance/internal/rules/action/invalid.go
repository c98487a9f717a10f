package action

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// odd sends requests that no host sends. An answer without an error must leave the item unchanged.
func (s *Action) odd(ctx context.Context, requests map[string]wire.Request) error {
	if err := s.survives(ctx); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(requests))
	return s.Each(ctx, len(names), func(ctx context.Context, i int) error {
		what, q := names[i], requests[names[i]]
		got, err := s.Execute(ctx, q)
		if err := suite.NotHung(err); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err == nil && s.How().Answers && !got.Skip && !bytes.Equal(got.Item, q.Item) {
			if _, err := sample.IdentityOf(q.Item); err == nil && len(q.Owner) == 0 && s.checkItemOf(q, got) == nil {
				return nil // the item was valid
			}
			return fmt.Errorf("%s: the answer is the item %s", what, sample.Brief(got.Item))
		}
		if conn, err := s.Conn(ctx); err != nil {
			return err
		} else if _, err := s.appliesTo(ctx, conn); suite.Hung(err) {
			return fmt.Errorf("%s: after that nothing is answered: %w", what, err)
		}
		return nil
	})
}

// survives skips a rule if the action does not even answer about valid items.
func (s *Action) survives(ctx context.Context) error {
	if s.selection(ctx).err != nil {
		return suite.Skip("AppliesTo does not answer")
	}
	all, err := s.exchanges(ctx)
	if err == nil && slices.ContainsFunc(all, func(one Exchange) bool { return suite.Hung(one.Err) }) {
		return suite.Skip("it does not answer about a valid item")
	}
	return nil
}

// anyItem returns an item that the action selects, if there is one.
func (s *Action) anyItem(ctx context.Context) sample.Sample {
	if all, err := s.exchanges(ctx); err == nil {
		return all[0].Sample
	}
	return s.Items[0]
}

func checkEmptyRequest(ctx context.Context, s *Action) error {
	full := s.Request(s.anyItem(ctx))
	noOwner, noItem, emptyItem, emptyOwner := full, full, full, full
	noOwner.Owner = nil
	noItem.Item = nil
	emptyItem.Item = []byte("{}")
	if s.How().Restore {
		noItem.FromBackup, emptyItem.FromBackup = nil, []byte("{}")
	}
	emptyOwner.Owner = []byte("{}")
	requests := map[string]wire.Request{
		"a request with nothing but the plugin's name": {Plugin: s.Name},
		"a request without an item":                    noItem,
		"the item {}":                                  emptyItem,
	}
	if err := s.odd(ctx, requests); err != nil {
		return err
	}
	// The items are valid, so any valid answer is allowed.
	for what, q := range map[string]wire.Request{"a request without a Backup or Restore": noOwner,
		"the Backup or Restore {}": emptyOwner} {
		if _, err := s.Execute(ctx, q); suite.NotHung(err) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

func checkGarbage(ctx context.Context, s *Action) error {
	full := s.Request(s.anyItem(ctx))
	requests := map[string]wire.Request{}
	for _, item := range []string{
		"\x00\xff\xfe", `{"apiVersion":"v1","kind":"Pod","meta`, `null`, `[]`, `"text"`, `{"kind":1,"metadata":[]}`,
		strings.Repeat("[", 5000),
	} {
		q := full
		q.Item = []byte(item)
		if s.How().Restore {
			q.FromBackup = q.Item
		}
		requests[fmt.Sprintf("the item %.30q", item)] = q
	}
	owner := full
	owner.Owner = []byte(`{"metadata":[1,2`)
	if err := s.odd(ctx, requests); err != nil {
		return err
	}
	if _, err := s.Execute(ctx, owner); suite.NotHung(err) != nil {
		return fmt.Errorf("a Backup or Restore that is not JSON: %w", err)
	}
	return nil
}
