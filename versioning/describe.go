package versioning

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
)

// Description is the report of a plugin process about itself.
type Description struct {
	// PluginVersion is the plugin's version, in its author's format; empty when it is not reported.
	PluginVersion string
	// FrameworkVersion is the version of the framework that the plugin is built on; empty when it is not reported.
	FrameworkVersion string
	// Informed is set if the process serves PluginInfo. Plugins built for stock Velero, or without the framework, do not.
	Informed bool
	// PerRun is set if a process may keep state that is valid for one run only: it says so, or does not serve PluginInfo.
	PerRun bool
	// Plugins are all implementations: first the list in its order, and then the ones that only PluginInfo reports.
	Plugins []Described
}

// Described is one implementation that the process serves.
type Described struct {
	Listed
	// ConfigSchema is the JSON Schema of its config, a JSON object; nil when it announces none.
	ConfigSchema []byte
	// AdapterOf is the kind that the implementation adapts for hosts without that kind; empty for all others.
	AdapterOf string
	// Objects are the resources whose whole objects a manifest writer gets, "deployments.apps", or "*" for all.
	Objects []string
	// OperationTimeout and StallTimeout are the longest times of an operation of an action: to its end, and without
	// progress. Zero means that the author declares none.
	OperationTimeout time.Duration
	StallTimeout     time.Duration
	// Roles are the roles that the author declares.
	Roles []framework.Role
}

// Listed returns the implementations as lines of a list.
func (d Description) Listed() []Listed {
	listed := make([]Listed, 0, len(d.Plugins))
	for _, plugin := range d.Plugins {
		listed = append(listed, plugin.Listed)
	}
	return listed
}

// Describe lists the plugins of the process behind conn, by Velero's PluginLister and by our PluginInfo, and merges
// both. A process without PluginInfo is described by its list. Kinds and versions may be unknown to the server, and
// names are as the plugin wrote them: none of them is checked.
func Describe(ctx context.Context, conn grpc.ClientConnInterface) (Description, error) {
	listed, err := List(ctx, conn)
	if err != nil {
		return Description{}, err
	}
	var description Description
	for _, line := range listed {
		description.Plugins = append(description.Plugins, Described{Listed: line})
	}
	info, err := plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(ctx, &plugininfov1.GetPluginInfoRequest{})
	if status.Code(err) == codes.Unimplemented {
		description.PerRun = true
		return description, nil
	}
	if err != nil {
		return Description{}, fmt.Errorf("ask for plugin info: %w", err)
	}
	if err := description.merge(info); err != nil {
		return Description{}, fmt.Errorf("plugin info: %w: %w", ErrInvalidReply, err)
	}
	return description, nil
}

// DescribeCalls declares the methods by which a plugin describes itself.
func DescribeCalls() Calls {
	return Calls{
		pluginlisterv1.PluginLister_ListPlugins_FullMethodName:       {Class: Query, Repeatable: true},
		plugininfov1.PluginInfoService_GetPluginInfo_FullMethodName:  {Class: Query, Repeatable: true},
		plugininfov1.PluginInfoService_ValidateConfig_FullMethodName: {Class: Query, Repeatable: true},
		plugininfov1.PluginInfoService_Configure_FullMethodName:      {Class: Query, Repeatable: true},
	}
}

// merge adds what PluginInfo reports to the list.
func (d *Description) merge(info *plugininfov1.GetPluginInfoResponse) error {
	for field, version := range map[string]string{
		"plugin_version": info.GetPluginVersion(), "framework_version": info.GetFrameworkVersion(),
	} {
		if version == "" {
			continue
		}
		if err := hostapi.Line(field, version); err != nil {
			return err
		}
	}
	d.Informed, d.PluginVersion, d.FrameworkVersion = true, info.GetPluginVersion(), info.GetFrameworkVersion()
	d.PerRun = info.GetProcessPerRun()

	positions := map[Listed]int{}
	for i, plugin := range d.Plugins {
		positions[plugin.Listed] = i
	}
	reported := map[Listed]bool{}
	for i, plugin := range info.GetPlugins() {
		line, err := validatePlugin(plugin)
		if err != nil {
			return fmt.Errorf("plugins[%d]: %w", i, err)
		}
		if reported[line] {
			return fmt.Errorf("plugins[%d]: %s %s is there twice", i, line.Kind, line.Name)
		}
		reported[line] = true
		at, listed := positions[line]
		if !listed {
			at = len(d.Plugins)
			d.Plugins = append(d.Plugins, Described{Listed: line})
		}
		d.Plugins[at].ConfigSchema, d.Plugins[at].AdapterOf = plugin.GetConfigSchema(), plugin.GetAdapterOf()
		d.Plugins[at].Objects = plugin.GetObjects()
		d.Plugins[at].Roles = nil
		for _, role := range plugin.GetRoles() {
			d.Plugins[at].Roles = append(d.Plugins[at].Roles, framework.Role(role))
		}
		d.Plugins[at].OperationTimeout, d.Plugins[at].StallTimeout = plugin.GetOperationTimeout().AsDuration(),
			plugin.GetStallTimeout().AsDuration()
	}
	return nil
}

// validatePlugin checks what PluginInfo reports about one implementation, and returns it as a line of a list.
func validatePlugin(plugin *plugininfov1.Plugin) (Listed, error) {
	kind, version := plugin.GetKind(), int(plugin.GetVersion())
	if kind == "" {
		return Listed{}, fmt.Errorf("%q has no kind", plugin.GetName())
	}
	if version < 1 {
		return Listed{}, fmt.Errorf("%s %s has version %d, want 1 or more", kind, plugin.GetName(), version)
	}
	wire := hostapi.WireKind(kind, version)
	if named, _ := hostapi.SplitWireKind(wire); named != kind {
		return Listed{}, fmt.Errorf("kind %q of %s must be without its version", kind, plugin.GetName())
	}
	if len(plugin.GetConfigSchema()) > 0 {
		var schema map[string]json.RawMessage
		if err := json.Unmarshal(plugin.GetConfigSchema(), &schema); err != nil || schema == nil {
			return Listed{}, fmt.Errorf("config schema of %s %s is not a JSON object", wire, plugin.GetName())
		}
	}
	for _, resource := range plugin.GetObjects() {
		if err := hostapi.Line("objects of "+wire+" "+plugin.GetName(), resource); err != nil {
			return Listed{}, err
		}
	}
	if err := validateRoles(wire, plugin); err != nil {
		return Listed{}, err
	}
	for field, limit := range map[string]*durationpb.Duration{"operation_timeout": plugin.GetOperationTimeout(),
		"stall_timeout": plugin.GetStallTimeout()} {
		if _, err := hostapi.Timeout(field+" of "+wire+" "+plugin.GetName(), limit); err != nil {
			return Listed{}, err
		}
	}
	return Listed{Kind: wire, Name: plugin.GetName()}, nil
}

// validateRoles checks the roles of an implementation. Unknown roles are ignored.
func validateRoles(wire string, plugin *plugininfov1.Plugin) error {
	for i, role := range plugin.GetRoles() {
		if err := hostapi.Line("roles of "+wire+" "+plugin.GetName(), role); err != nil {
			return err
		}
		if slices.Contains(plugin.GetRoles()[:i], role) {
			return fmt.Errorf("roles of %s %s: %s is there twice", wire, plugin.GetName(), role)
		}
		if known := framework.Role(role).Kinds(); known != nil && !slices.Contains(known, plugin.GetKind()) {
			return fmt.Errorf("roles of %s %s: %s is for %s", wire, plugin.GetName(), role, strings.Join(known, ", "))
		}
	}
	return nil
}
