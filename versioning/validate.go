package versioning

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
)

// ConfigFault is one mistake in the configuration of a plugin.
type ConfigFault struct {
	Key     string // with dots and indexes: "rules[2].age"; empty for the whole configuration
	Message string
}

// ValidateConfig asks the process that conn reaches whether one of its implementations accepts config, JSON of an
// object. It returns no faults for a process that does not serve this call, which is optional.
func ValidateConfig(
	ctx context.Context, conn grpc.ClientConnInterface, plugin Listed, config []byte,
) ([]ConfigFault, error) {
	kind, version := hostapi.SplitWireKind(plugin.Kind)
	answer, err := plugininfov1.NewPluginInfoServiceClient(conn).ValidateConfig(ctx,
		&plugininfov1.ValidateConfigRequest{Kind: kind, Version: int32(version), Name: plugin.Name, Config: config})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, NewPlugin(kind, plugin.Name).Wrap(err)
	}
	var faults []ConfigFault
	for _, problem := range answer.GetProblems() {
		faults = append(faults, ConfigFault{Key: problem.GetKey(), Message: problem.GetMessage()})
	}
	return faults, nil
}

// Configure sets the configuration of an implementation of the process that conn reaches, JSON of an object, for the
// calls that follow.
func Configure(ctx context.Context, conn grpc.ClientConnInterface, plugin Listed, config []byte) error {
	kind, version := hostapi.SplitWireKind(plugin.Kind)
	_, err := plugininfov1.NewPluginInfoServiceClient(conn).Configure(ctx,
		&plugininfov1.ConfigureRequest{Kind: kind, Version: int32(version), Name: plugin.Name, Config: config})
	return NewPlugin(kind, plugin.Name).Wrap(err)
}
