package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// key is the identity of an item. Its fields are in the order by which manifests are sorted.
type key struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Version   string `json:"version"`
}

func keyOf(item *Item) key {
	return key{item.APIGroup, item.Resource, item.Namespace, item.Name, item.APIVersion}
}

// compare compares byte by byte.
func (k key) compare(other key) int {
	if c := k.compareObjects(other); c != 0 {
		return c
	}
	return strings.Compare(k.Version, other.Version)
}

// compareObjects compares the objects of the keys, without the version.
func (k key) compareObjects(other key) int {
	return cmp.Or(
		strings.Compare(k.Group, other.Group),
		strings.Compare(k.Resource, other.Resource),
		strings.Compare(k.Namespace, other.Namespace),
		strings.Compare(k.Name, other.Name),
	)
}

func compareItems(a, b *Item) int { return keyOf(a).compare(keyOf(b)) }

// Limits of one item, in bytes. The API server has lower limits for most names; it has none for those of roles and
// their bindings.
const (
	maxName = 1 << 10
	maxWord = 253 // group, version, resource, kind and namespace
	maxUID  = 128
)

// check returns an error if the item cannot be in a manifest.
func (i *Item) check() error {
	for _, field := range []struct {
		name, value string
		limit       int
		required    bool
	}{
		{"group", i.APIGroup, maxWord, false},
		{"version", i.APIVersion, maxWord, true},
		{"resource", i.Resource, maxWord, true},
		{"kind", i.ItemKind, maxWord, true},
		{"namespace", i.Namespace, maxWord, false},
		{"name", i.Name, maxName, true},
		{"uid", i.UID, maxUID, false},
	} {
		if err := checkWord(field.value, field.limit, field.required); err != nil {
			return fmt.Errorf("the %s of item %.512q %w", field.name, i.String(), err)
		}
	}
	return nil
}

func checkWord(value string, limit int, required bool) error {
	switch {
	case value == "" && required:
		return errors.New("is empty")
	case len(value) > limit:
		return fmt.Errorf("has %d bytes, want at most %d", len(value), limit)
	case !utf8.ValidString(value) ||
		strings.ContainsFunc(value, func(r rune) bool { return r == '/' || unicode.IsControl(r) }):
		return fmt.Errorf("is %.512q, want UTF-8 without control characters and slashes", value)
	}
	return nil
}

// sortable returns a string that compares as the key does; no field has a zero byte.
func (k key) sortable() string {
	return strings.Join([]string{k.Group, k.Resource, k.Namespace, k.Name, k.Version}, "\x00")
}

// String returns the key as Item.String does.
func (k key) String() string {
	return (&Item{APIGroup: k.Group, APIVersion: k.Version, Resource: k.Resource, Namespace: k.Namespace,
		Name: k.Name}).String()
}
