package versioning

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Listed is one line of a plugin's list of implementations.
type Listed struct {
	Kind string // as on the wire, "BackupItemActionV2"
	Name string
}

// List returns the list of the process that conn reaches, in its own order. It checks neither kinds, which may be
// unknown, nor names.
func List(ctx context.Context, conn grpc.ClientConnInterface) ([]Listed, error) {
	answer, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	if err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	listed := make([]Listed, 0, len(answer.GetPlugins()))
	for _, plugin := range answer.GetPlugins() {
		listed = append(listed, Listed{Kind: plugin.GetKind(), Name: plugin.GetName()})
	}
	return listed, nil
}
