package action

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// checkResourceNames checks how answers name resources. In a selector a host finds a resource by any of its names, in
// upper or lower case.
func checkResourceNames(ctx context.Context, s *Action) error {
	all, err := s.exchanges(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.Err != nil || one.Answer.Skip {
			continue
		}
		for _, list := range [][]*shared.ResourceIdentifier{one.Answer.Additional, one.Answer.After} {
			for _, id := range list {
				if want := s.pluralOf(id.GetResource()); want != id.GetResource() {
					return fmt.Errorf("asked about %s, it answers the resource %q: want the plural, %q", one.Sample, id.GetResource(),
						want)
				}
			}
		}
	}
	return nil
}

// pluralOf returns the plural of a kind, or of a singular or short name of one of the samples, or of any name with
// capital letters. Other names are returned unchanged.
func (s *Action) pluralOf(name string) string {
	alone, group, grouped := strings.Cut(name, ".")
	lower := strings.ToLower(alone)
	known := lower
	if lower != alone {
		known = sample.Plural(lower)
	}
	for _, one := range s.Items {
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
