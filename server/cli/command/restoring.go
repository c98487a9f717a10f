package command

import (
	"context"
	"time"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Restoring asks the server about a restore that is at work. It returns nil if the restore is not, or the server is of
// Velero.
func (s *Cluster) Restoring(
	ctx context.Context, timeout time.Duration, question serverreport.RestoreQuestion,
) (*serverreport.Restoring, error) {
	answer, err := s.ServerStatus(ctx, timeout, map[string]string{serverreport.RestoringOfAnnotation: question.Encode()})
	if err != nil {
		return nil, err
	}
	_ = s.Delete(ctx, answer) // see Operations
	text, reported := answer.Annotations[serverreport.RestoringAnnotation]
	if !reported {
		return nil, nil
	}
	return serverreport.DecodeRestoring(text)
}
