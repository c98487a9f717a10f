package action

import (
	"context"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

func checkLargeItem(ctx context.Context, s *Action) error { return s.takes(ctx, 2*suite.MiB) }

// takes checks the answer to an item of a size in bytes.
func (s *Action) takes(ctx context.Context, size int) error {
	_, _, err := s.changed(ctx, func(q *wire.Request, item sample.Sample) {
		q.Item, q.Padding = s.Request(item.Padded()).Item, size
	})
	return err
}

func checkLargeRequest(ctx context.Context, s *Action) error {
	if s.Info == nil {
		return suite.Skip("the process has no PluginInfo, and may keep gRPC's limit of 4 MiB")
	}
	return s.takes(ctx, 5*suite.MiB)
}
