package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

func checkStoreList(ctx context.Context, s *store) error {
	if err := s.someObjects(ctx); err != nil {
		return err
	}
	return s.lists(ctx, "with the prefix %q", s.keys, map[string][]string{
		s.folder + "backups/b1/": {s.folder + "backups/b1/x", s.folder + "backups/b1/deep/er/y"},
		s.folder + "backups/b1":  {s.folder + "backups/b1/x", s.folder + "backups/b1/deep/er/y", s.folder + "backups/b10/x"},
		s.folder + "to":          {s.folder + "top"},
		s.folder + "nowhere/":    {},
		s.folder + "backups/b/":  {}, // there are backups/b1/ and backups/b10/
	})
}

// lists compares what list answers for prefixes with what is expected. where names a prefix in errors.
func (s *store) lists(
	ctx context.Context, where string, list func(context.Context, string) ([]string, error), want map[string][]string,
) error {
	prefixes := slices.Sorted(maps.Keys(want))
	return s.Each(ctx, len(prefixes), func(ctx context.Context, i int) error {
		at := fmt.Sprintf(where, prefixes[i])
		got, err := list(ctx, prefixes[i])
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return same(at, got, want[prefixes[i]])
	})
}

func checkStorePrefixes(ctx context.Context, s *store) error {
	if err := s.someObjects(ctx); err != nil {
		return err
	}
	err := s.lists(ctx, "below %q", s.prefixes, map[string][]string{
		s.folder:                 {s.folder + "backups/", s.folder + "restores/"},
		s.folder + "backups/":    {s.folder + "backups/b1/", s.folder + "backups/b10/"},
		s.folder + "backups/b1/": {s.folder + "backups/b1/deep/"},
		s.folder + "nowhere/":    {},
		s.folder + "backups/b/":  {}, // there are backups/b1/ and backups/b10/
	})
	if err != nil {
		return err
	}
	top, err := s.prefixes(ctx, "")
	if err != nil {
		return fmt.Errorf("at the top of the bucket: %w", err)
	}
	folder, _, _ := strings.Cut(rootFolder, "/")
	if !slices.Contains(top, folder+"/") {
		return fmt.Errorf("at the top of the bucket: there is %q, and not %q", top, folder+"/")
	}
	return nil
}

func checkStoreListMany(ctx context.Context, s *store) error {
	keys := make([]string, s.Objects)
	prefixes := make([]string, s.Objects)
	for i := range keys {
		prefixes[i] = fmt.Sprintf("%smany/b%d/", s.folder, i)
		keys[i] = prefixes[i] + "object"
	}
	if err := s.putAll(ctx, keys); err != nil {
		return err
	}
	got, err := s.keys(ctx, s.folder+"many/")
	if err != nil {
		return err
	}
	if err := same("ListObjects", got, keys); err != nil {
		return err
	}
	got, err = s.prefixes(ctx, s.folder+"many/")
	if err != nil {
		return err
	}
	return same("ListCommonPrefixes", got, prefixes)
}

func checkStoreOddKeys(ctx context.Context, s *store) error {
	odd := []string{
		"a b/c d", "plus+plus", "per%20cent", "q?uest=ion&more", "hash#tag", "quote'\"quote", "ünï/cødé/日本", "dots..in.name",
		"colon:semi;comma,at@", "(paren)[bracket]{brace}", "tilde~caret^", "star*", "dollar$", "back`tick", "pipe|",
		strings.Repeat("n", 200),
	}
	var keys []string
	for _, key := range odd {
		keys = append(keys, s.folder+"odd/"+key)
	}
	if err := s.putAll(ctx, keys); err != nil {
		return err
	}
	got, err := s.keys(ctx, s.folder+"odd/")
	if err != nil {
		return err
	}
	if err := same("ListObjects", got, keys); err != nil {
		return err
	}
	var reading errgroup.Group
	reading.SetLimit(suite.SlowCallers)
	for _, key := range keys {
		reading.Go(func() error {
			if err := s.has(ctx, key, []byte("content of "+key)); err != nil {
				return err
			}
			if err := s.remove(ctx, key); err != nil {
				return fmt.Errorf("call of DeleteObject for %q: %w", key, err)
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	if got, err = s.keys(ctx, s.folder+"odd/"); err != nil {
		return err
	}
	return same("after all were deleted", got, nil)
}

func (s *store) someObjects(ctx context.Context) error {
	var keys []string
	for _, key := range []string{"backups/b1/x", "backups/b1/deep/er/y", "backups/b10/x", "backups/file", "restores/r/x",
		"top"} {
		keys = append(keys, s.folder+key)
	}
	return s.putAll(ctx, keys)
}

// same compares a list with what is expected.
func same(what string, got, want []string) error {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if slices.Equal(got, want) {
		return nil
	}
	var twice []string
	for i := 1; i < len(got); i++ {
		if got[i] == got[i-1] {
			twice = append(twice, got[i])
		}
	}
	text := fmt.Sprintf("%s: %d are listed, want %d", what, len(got), len(want))
	for _, part := range []struct {
		what string
		keys []string
	}{{"missing", without(want, got)}, {"unexpected", without(got, want)},
		{"listed more than once", slices.Compact(twice)}} {
		switch {
		case len(part.keys) > 3:
			text += fmt.Sprintf("; %d are %s, the first is %q", len(part.keys), part.what, part.keys[0])
		case len(part.keys) > 0:
			text += fmt.Sprintf("; %s: %q", part.what, part.keys)
		}
	}
	return errors.New(text)
}

// without returns the elements of a sorted list that are not in another, each once.
func without(list, other []string) []string {
	return slices.Compact(slices.DeleteFunc(slices.Clone(list), func(key string) bool {
		_, found := slices.BinarySearch(other, key)
		return found
	}))
}
