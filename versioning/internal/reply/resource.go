package reply

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Identifiers checks the identifiers in field of a reply: each names a resource and an object, and none of
// its parts can be mistaken for a path.
func Identifiers(field string, received []*shared.ResourceIdentifier) ([]framework.ResourceIdentifier, error) {
	var ids []framework.ResourceIdentifier
	for i, id := range received {
		checked := framework.ResourceIdentifier{
			Group: id.GetGroup(), Resource: id.GetResource(), Namespace: id.GetNamespace(), Name: id.GetName(),
		}
		if checked.Resource == "" || checked.Name == "" {
			return nil, fmt.Errorf("%s[%d] (%q) must name a resource and an object", field, i, checked.String())
		}
		for _, part := range []string{checked.Group, checked.Resource, checked.Namespace, checked.Name} {
			if part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
				return nil, fmt.Errorf("%s[%d]: %q cannot be part of an object's name", field, i, part)
			}
		}
		ids = append(ids, checked)
	}
	return ids, nil
}

// Sent returns ids in the form of a request.
func Sent(ids []framework.ResourceIdentifier) []*shared.ResourceIdentifier {
	sent := make([]*shared.ResourceIdentifier, 0, len(ids))
	for _, id := range ids {
		sent = append(sent, &shared.ResourceIdentifier{
			Group: id.Group, Resource: id.Resource, Namespace: id.Namespace, Name: id.Name,
		})
	}
	return sent
}

// Selector checks a selector; nil is the empty selector.
func Selector(received *shared.ResourceSelector) (framework.ResourceSelector, error) {
	if _, err := labels.Parse(received.GetSelector()); err != nil {
		return framework.ResourceSelector{}, fmt.Errorf("label selector %q: %w", received.GetSelector(), err)
	}
	return framework.ResourceSelector{
		IncludedNamespaces: received.GetIncludedNamespaces(),
		ExcludedNamespaces: received.GetExcludedNamespaces(),
		IncludedResources:  received.GetIncludedResources(),
		ExcludedResources:  received.GetExcludedResources(),
		LabelSelector:      received.GetSelector(),
	}, nil
}
