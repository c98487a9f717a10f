package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Operations asks the server for the operations that it follows, of the owners with the given keys (see
// serverreport.OwnerKey) or, without keys, of all.
func (s *Cluster) Operations(
	ctx context.Context, timeout time.Duration, keys ...string,
) (*serverreport.Operations, error) {
	answer, err := s.ServerStatus(ctx, timeout,
		map[string]string{serverreport.OperationsOfAnnotation: strings.Join(keys, ",")})
	if err != nil {
		return nil, err
	}
	// The server would delete it in a minute, but someone who watches operations asks often. It still does if this fails.
	_ = s.Delete(ctx, answer)
	text, reported := answer.Annotations[serverreport.OperationsAnnotation]
	if !reported {
		return nil, fmt.Errorf("the server (%s) does not report operations: it is Velero's, or an older cleat",
			strings.TrimSpace(layout.Printable(answer.Status.ServerVersion)))
	}
	return serverreport.DecodeOperations(text)
}
