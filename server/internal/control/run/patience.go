package run

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// Patience determines how reads wait for an API server that is unavailable or overloaded.
type Patience struct {
	For time.Duration
	Log hclog.Logger
}

// Read calls read, which sends one request, until it succeeds, fails permanently, or the time is up.
func (p Patience) Read(ctx context.Context, read func() error) error {
	backoff, began := kubeapi.Backoff(), time.Now()
	var waiting waits.Retry
	defer waiting.End()
	for attempt := 1; ; attempt++ {
		err := read()
		if err == nil || !kubeapi.Transient(err) || time.Since(began) > p.For {
			return err
		}
		if attempt == 1 {
			p.Log.Warn("the API server did not answer, trying again", "error", err)
		}
		waiting.Failed(ctx, "the API server to respond", err)
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return err
		}
	}
}

// Reader returns a reader that repeats failed reads.
func (p Patience) Reader(reader client.Reader) client.Reader {
	return patientReader{reader: reader, patience: p}
}

type patientReader struct {
	reader   client.Reader
	patience Patience
}

// Get implements client.Reader.
func (r patientReader) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	return r.patience.Read(ctx, func() error { return r.reader.Get(ctx, key, object, opts...) })
}

// List implements client.Reader.
func (r patientReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.patience.Read(ctx, func() error { return r.reader.List(ctx, list, opts...) })
}
