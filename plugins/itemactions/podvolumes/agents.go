package podvolumes

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/agentpods"
)

// missed checks the agent of the node of an open operation with some loads. why has the remedy if the agent is not
// ready; long reports whether it has had no pod for so long that the operation should end.
func missed(
	ctx context.Context, agents *agentpods.Watch, api client.Client, namespace, node, operation string, loads []load,
) (why string, long bool, err error) {
	moving := slices.ContainsFunc(loads, func(l load) bool { return l.status.Phase == velerov1.LoadPhaseInProgress })
	return agents.Missed(ctx, api, namespace, node, operation, moving)
}
