package framework

import (
	"cmp"
	"context"
	"math"
	"runtime/debug"
	"slices"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
)

// modulePath is the module that this package is part of.
const modulePath = "github.com/cleat-dev/cleat"

// info serves PluginInfo.
type info struct {
	plugininfov1.UnimplementedPluginInfoServiceServer
	answer *plugininfov1.GetPluginInfoResponse
}

func newInfo(c *catalog) *info {
	build, _ := debug.ReadBuildInfo() // nil in a binary without modules
	answer := &plugininfov1.GetPluginInfoResponse{
		PluginVersion:    cmp.Or(c.version, pluginVersion(build)),
		FrameworkVersion: frameworkVersion(build),
	}
	for _, served := range c.served {
		kind, version := SplitWireKind(served.wire)
		answer.Plugins = append(answer.Plugins, &plugininfov1.Plugin{
			Kind: kind, Version: int32(min(version, math.MaxInt32)), Name: served.name, ConfigSchema: served.details.configSchema,
		})
	}
	slices.SortFunc(answer.Plugins, func(a, b *plugininfov1.Plugin) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetVersion(), b.GetVersion()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return &info{answer: answer}
}

func (i *info) GetPluginInfo(context.Context, *plugininfov1.GetPluginInfoRequest) (*plugininfov1.GetPluginInfoResponse, error) {
	return i.answer, nil
}

// pluginVersion is the version of the main module of a binary; empty when it was built from no version.
func pluginVersion(build *debug.BuildInfo) string {
	if build == nil {
		return ""
	}
	return released(build.Main)
}

// frameworkVersion is the version of this module in a binary; empty when it was built from no version.
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
