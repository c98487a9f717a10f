package glue

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
)

// modulePath is the module to which this package belongs.
const modulePath = "github.com/cleat-dev/cleat"

// info implements PluginInfo.
type info struct {
	plugininfov1.UnimplementedPluginInfoServiceServer
	catalog *catalog
	answer  *plugininfov1.GetPluginInfoResponse
}

func newInfo(c *catalog) *info {
	build, _ := debug.ReadBuildInfo() // nil in a binary without modules
	answer := &plugininfov1.GetPluginInfoResponse{
		PluginVersion:    cmp.Or(c.version, pluginVersion(build)),
		FrameworkVersion: frameworkVersion(build),
		ProcessPerRun:    c.perRun,
	}
	for _, served := range c.served {
		kind, version := SplitWireKind(served.wire)
		answer.Plugins = append(answer.Plugins, &plugininfov1.Plugin{
			Kind: kind, Version: int32(min(version, math.MaxInt32)), Name: served.name,
			ConfigSchema: served.details.config.Schema(), AdapterOf: served.details.adapterOf,
			Objects: served.details.objects, OperationTimeout: sentLimit(served.details.operationTimeout),
			StallTimeout: sentLimit(served.details.stallTimeout), Roles: served.details.sentRoles(),
		})
	}
	slices.SortFunc(answer.Plugins, func(a, b *plugininfov1.Plugin) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetVersion(), b.GetVersion()),
			cmp.Compare(a.GetName(), b.GetName()))
	})
	return &info{catalog: c, answer: answer}
}

// sentLimit returns a declared time in its wire form, nil if it is not declared.
func sentLimit(limit *time.Duration) *durationpb.Duration {
	if limit == nil {
		return nil
	}
	return durationpb.New(*limit)
}

func (i *info) GetPluginInfo(
	context.Context, *plugininfov1.GetPluginInfoRequest,
) (*plugininfov1.GetPluginInfoResponse, error) {
	return i.answer, nil
}

// ValidateConfig implements PluginInfoService.
func (i *info) ValidateConfig(
	_ context.Context, req *plugininfov1.ValidateConfigRequest,
) (*plugininfov1.ValidateConfigResponse, error) {
	found, err := i.find(req)
	if err != nil {
		return nil, err
	}
	_, err = found.details.config.decode(req.GetConfig())
	var wrong *configError
	if !errors.As(err, &wrong) {
		return &plugininfov1.ValidateConfigResponse{}, err
	}
	answer := &plugininfov1.ValidateConfigResponse{}
	for _, problem := range wrong.problems {
		answer.Problems = append(answer.Problems, &plugininfov1.ConfigProblem{Key: problem.key,
			Message: wireText(problem.err.Error())})
	}
	return answer, nil
}

// Configure implements PluginInfoService.
func (i *info) Configure(
	ctx context.Context, req *plugininfov1.ConfigureRequest,
) (*plugininfov1.ConfigureResponse, error) {
	found, err := i.find(req)
	if err != nil {
		return nil, err
	}
	if err := i.catalog.services[found.wire].configure(ctx, found.name, req.GetConfig()); err != nil {
		return nil, err
	}
	return &plugininfov1.ConfigureResponse{}, nil
}

// find returns the implementation that a request names.
func (i *info) find(req interface {
	GetKind() string
	GetVersion() int32
	GetName() string
},
) (served, error) {
	wire := WireKind(req.GetKind(), int(req.GetVersion()))
	for _, one := range i.catalog.served {
		if one.wire == wire && one.name == req.GetName() {
			return one, nil
		}
	}
	return served{}, NotFound("no %s %q here", wire, req.GetName())
}

// pluginVersion returns the version of a binary's main module; empty if it was not built from a version.
func pluginVersion(build *debug.BuildInfo) string {
	if build == nil {
		return ""
	}
	return released(build.Main)
}

// frameworkVersion returns the version of this module in a binary; empty if it was not built from a version.
func frameworkVersion(build *debug.BuildInfo) string {
	if build == nil {
		return ""
	}
	if build.Main.Path == modulePath {
		return released(build.Main)
	}
	for _, module := range build.Deps {
		if module.Path != modulePath {
			continue
		}
		if module.Replace != nil {
			return released(*module.Replace)
		}
		return released(*module)
	}
	return ""
}

func released(module debug.Module) string {
	if module.Version == "(devel)" {
		return ""
	}
	return module.Version
}
