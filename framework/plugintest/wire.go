package plugintest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// These functions convert answers that several kinds and versions share. Each takes the results of a call, including
// its error.

// selector returns the answer of AppliesTo.
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

// item returns the object in the answer of Execute or Start, or nil if there is none.
func (t target) item(answer interface{ GetItem() []byte }, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, t.wrap(err)
	}
	item, err := decodeItem(answer.GetItem())
	return item, t.wrap(err)
}

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

// progressAndLines returns the answer of Progress of a kind that has the last lines too.
func (t target) progressAndLines(answer interface {
	GetProgress() *shared.OperationProgress
	GetLastLines() string
}, err error,
) (framework.OperationProgress, error) {
	progress, err := t.progress(answer, err)
	progress.LastLines = answer.GetLastLines()
	return progress, err
}

// receivedItems returns the identifiers in a message, or nil for none.
func receivedItems(sent []*shared.ResourceIdentifier) []framework.ResourceIdentifier {
	if len(sent) == 0 {
		return nil
	}
	return wire.Received(sent)
}
