package wire

import (
	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Identifiers returns ids in their wire form.
func Identifiers(ids []framework.ResourceIdentifier) []*shared.ResourceIdentifier {
	if len(ids) == 0 {
		return nil
	}
	sent := make([]*shared.ResourceIdentifier, 0, len(ids))
	for _, id := range ids {
		sent = append(sent, &shared.ResourceIdentifier{
			Group: id.Group, Resource: id.Resource, Namespace: id.Namespace, Name: id.Name,
		})
	}
	return sent
}

// Received returns the identifiers in a message.
func Received(ids []*shared.ResourceIdentifier) []framework.ResourceIdentifier {
	received := make([]framework.ResourceIdentifier, 0, len(ids))
	for _, id := range ids {
		received = append(received, framework.ResourceIdentifier{
			Group: id.GetGroup(), Resource: id.GetResource(), Namespace: id.GetNamespace(), Name: id.GetName(),
		})
	}
	return received
}

// Selector returns selector in its wire form.
func Selector(selector framework.ResourceSelector) *shared.ResourceSelector {
	return &shared.ResourceSelector{
		IncludedNamespaces: selector.IncludedNamespaces,
		ExcludedNamespaces: selector.ExcludedNamespaces,
		IncludedResources:  selector.IncludedResources,
		ExcludedResources:  selector.ExcludedResources,
		Selector:           selector.LabelSelector,
	}
}
