package plugintest

import (
	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// receivedSelector is a selector as it was sent.
func receivedSelector(sent *shared.ResourceSelector) framework.ResourceSelector {
	return framework.ResourceSelector{
		IncludedNamespaces: sent.GetIncludedNamespaces(),
		ExcludedNamespaces: sent.GetExcludedNamespaces(),
		IncludedResources:  sent.GetIncludedResources(),
		ExcludedResources:  sent.GetExcludedResources(),
		LabelSelector:      sent.GetSelector(),
	}
}

// receivedProgress is progress as it was sent.
func receivedProgress(sent *shared.OperationProgress) framework.OperationProgress {
	return framework.OperationProgress{
		Completed:   sent.GetCompleted(),
		Err:         sent.GetErr(),
		NCompleted:  sent.GetNCompleted(),
		NTotal:      sent.GetNTotal(),
		Units:       sent.GetOperationUnits(),
		Description: sent.GetDescription(),
		Started:     wire.Instant(sent.GetStarted()),
		Updated:     wire.Instant(sent.GetUpdated()),
	}
}

// receivedItems are identifiers as they were sent; none are nil, as an author writes it.
func receivedItems(sent []*shared.ResourceIdentifier) []framework.ResourceIdentifier {
	if len(sent) == 0 {
		return nil
	}
	return wire.Received(sent)
}
