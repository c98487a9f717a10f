package operation

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func checkReadyTimeout(ctx context.Context, s *Starter) error {
	all, err := s.Answered(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		timeout := one.Answer.Timeout
		if timeout == nil {
			continue
		}
		if err := timeout.CheckValid(); err != nil {
			return fmt.Errorf("asked about %s: %w", one.Sample, err)
		}
		if timeout.AsDuration() < 0 {
			return fmt.Errorf("asked about %s: it is %s", one.Sample, timeout.AsDuration())
		}
	}
	return nil
}

func checkReady(ctx context.Context, s *Starter) error {
	if err := s.NeedsService(ctx); err != nil {
		return err
	}
	asked := []*shared.ResourceIdentifier{{Resource: "configmaps", Namespace: "conformance", Name: "sample"}}
	if all, err := s.Answered(ctx); err == nil && len(all[0].Answer.Additional) > 0 {
		asked = all[0].Answer.Additional
	}
	for _, items := range [][]*shared.ResourceIdentifier{asked, nil} {
		conn, err := s.Conn(ctx)
		if err != nil {
			return err
		}
		err = s.isReady(ctx, conn, items)
		if suite.Hung(err) || suite.Panicked(err) || status.Code(err) == codes.Unimplemented {
			return fmt.Errorf("asked about %d items: %w", len(items), err)
		}
	}
	return nil
}

func (s *Starter) isReady(ctx context.Context, conn *grpc.ClientConn, items []*shared.ResourceIdentifier) error {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	return s.How().Ready(ctx, conn, s.Name, items, sample.Encode(s.Owner(sample.UsualOwner)))
}
