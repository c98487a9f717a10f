package conformance

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// checkResourceNames checks how AppliesTo and answers name resources.
func checkResourceNames(ctx context.Context, s *subject) error {
	answered := s.selection(ctx)
	if answered.err != nil {
		return skip("AppliesTo does not answer")
	}
	for field, names := range map[string][]string{
		"includedResources": answered.selector.GetIncludedResources(), "excludedResources": answered.selector.GetExcludedResources(),
	} {
		for _, name := range names {
			if strings.ToLower(name) != name {
				return fmt.Errorf("%s of AppliesTo has %q: want the name of a resource in lower case, like %q", field, name, s.pluralOf(name))
			}
		}
	}
	all, err := s.exchanges(ctx)
	if err != nil {
		return nil //nolint:nilerr // there are no answers that could name resources
	}
	for _, one := range all {
		if one.err != nil || one.answer.Skip {
			continue
		}
		for _, list := range [][]*shared.ResourceIdentifier{one.answer.Additional, one.answer.After} {
			for _, id := range list {
				if want := s.pluralOf(id.GetResource()); want != id.GetResource() {
					return fmt.Errorf("asked about %s, it answers the resource %q: want the plural, %q", one.sample, id.GetResource(), want)
				}
			}
		}
	}
	return nil
}

// pluralOf returns the plural of a kind, or of a singular or short name of one of the samples, or of any name with capital
// letters. Other names are returned unchanged.
func (s *subject) pluralOf(name string) string {
	alone, group, grouped := strings.Cut(name, ".")
	lower := strings.ToLower(alone)
	known := lower
	if lower != alone {
		known = sample.Plural(lower)
	}
	for _, one := range s.items {
		kind := (&unstructured.Unstructured{Object: one.Object}).GetKind()
		if one.Plural != "" && (lower == strings.ToLower(kind) || lower == one.Plural || lower == one.Short) {
			known = one.Plural
			break
		}
	}
	if grouped {
		return known + "." + strings.ToLower(group)
	}
	return known
}
