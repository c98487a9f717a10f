package action

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func checkAppliesTo(ctx context.Context, s *Action) error {
	first := s.selection(ctx)
	if first.err != nil && s.LacksCluster(first.err) {
		return suite.Skip("AppliesTo needs a cluster, and none is given where it looks for one: %v", first.err)
	}
	if first.err != nil {
		return first.err
	}
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	again, err := s.How().AppliesTo(ctx, conn, s.Name)
	if err != nil {
		return err
	}
	// Absent is the same as empty.
	if !proto.Equal(orEmpty(first.selector), orEmpty(again)) {
		return fmt.Errorf("the first time it answered %v, the second time %v", first.selector, again)
	}
	return nil
}

func orEmpty(selector *shared.ResourceSelector) *shared.ResourceSelector {
	if selector == nil {
		return &shared.ResourceSelector{}
	}
	return selector
}

func checkSelector(ctx context.Context, s *Action) error {
	answered := s.selection(ctx)
	if answered.err != nil {
		return suite.Skip("AppliesTo does not answer")
	}
	if _, err := labels.Parse(answered.selector.GetSelector()); err != nil {
		return fmt.Errorf("the selector is %q: %w", answered.selector.GetSelector(), err)
	}
	return nil
}

func (s *Action) appliesTo(ctx context.Context, conn *grpc.ClientConn) (*shared.ResourceSelector, error) {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	return s.How().AppliesTo(ctx, conn, s.Name)
}
