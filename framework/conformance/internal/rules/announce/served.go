package announce

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

func checkServed(ctx context.Context, s *suite.Subject) error { return s.Unserved(ctx) }

func checkUnknownName(ctx context.Context, s *suite.Subject) error {
	if err := s.NeedsService(ctx); err != nil {
		return err
	}
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	known, _ := wire.Kind(s.Kind)
	err = wire.Probe(ctx, conn, known, "conformance.invalid/nobody")
	if err == nil {
		return fmt.Errorf("%s of a plugin that does not exist returns the status OK", known.Probe)
	}
	return suite.NotHung(err)
}
