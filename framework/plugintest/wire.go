package plugintest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// What several kinds and versions answer alike. Each takes what a call returned, its error too.

// selector is the answer of AppliesTo.
func (t target) selector(answer interface {
	GetResourceSelector() *shared.ResourceSelector
}, err error,
) (framework.ResourceSelector, error) {
	sent := answer.GetResourceSelector()
	return framework.ResourceSelector{
		IncludedNamespaces: sent.GetIncludedNamespaces(),
		ExcludedNamespaces: sent.GetExcludedNamespaces(),
		IncludedResources:  sent.GetIncludedResources(),
		ExcludedResources:  sent.GetExcludedResources(),
		LabelSelector:      sent.GetSelector(),
	}, t.wrap(err)
}

// item is the object in the answer of Execute or Start; nil when there is none.
func (t target) item(answer interface{ GetItem() []byte }, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, t.wrap(err)
	}
	item, err := decodeItem(answer.GetItem())
	return item, t.wrap(err)
}

// progress is the answer of Progress.
func (t target) progress(answer interface {
	GetProgress() *shared.OperationProgress
}, err error,
) (framework.OperationProgress, error) {
	sent := answer.GetProgress()
	return framework.OperationProgress{
		Completed:   sent.GetCompleted(),
		Err:         sent.GetErr(),
		NCompleted:  sent.GetNCompleted(),
		NTotal:      sent.GetNTotal(),
		Units:       sent.GetOperationUnits(),
		Description: sent.GetDescription(),
		Started:     wire.Instant(sent.GetStarted()),
		Updated:     wire.Instant(sent.GetUpdated()),
	}, t.wrap(err)
}

// receivedItems are identifiers as they were sent; none are nil, as an author writes it.
func receivedItems(sent []*shared.ResourceIdentifier) []framework.ResourceIdentifier {
	if len(sent) == 0 {
		return nil
	}
	return wire.Received(sent)
}
