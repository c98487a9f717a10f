package pluginhost

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	"github.com/cleat-dev/cleat/versioning"
)

// ConfigFault is one mistake in the configuration of a plugin.
type ConfigFault struct {
	Key     string // with dots and indexes: "rules[2].age"; empty for the whole
	Message string
}

// ValidateConfig lets a plugin check a configuration, JSON of an object. It returns no faults for a plugin that has no such
// call, which is optional.
func (h *Host) ValidateConfig(ctx context.Context, kind, name string, config []byte) ([]ConfigFault, error) {
	found, err := h.catalog().find(kind, kind, name)
	if err != nil {
		return nil, err
	}
	_, version := hostapi.SplitWireKind(found.Kind)
	answer, err := plugininfov1.NewPluginInfoServiceClient(h.conn(found.source, found.Name)).ValidateConfig(ctx,
		&plugininfov1.ValidateConfigRequest{Kind: kind, Version: int32(version), Name: found.Name, Config: config})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, versioning.NewPlugin(kind, found.Name).Wrap(err)
	}
	var faults []ConfigFault
	for _, problem := range answer.GetProblems() {
		faults = append(faults, ConfigFault{Key: problem.GetKey(), Message: problem.GetMessage()})
	}
	return faults, nil
}
