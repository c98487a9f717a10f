package command

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// Queue returns the queue of the server, as the Backups describe it now.
func (s *Cluster) Queue(ctx context.Context) (queue.Line, error) {
	var list velerov1.BackupList
	if err := s.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return queue.Line{}, fmt.Errorf("list the backups: %w", err)
	}
	backups := make([]*velerov1.Backup, len(list.Items))
	for i := range list.Items {
		backups[i] = &list.Items[i]
	}
	return queue.NewLine(backups), nil
}
