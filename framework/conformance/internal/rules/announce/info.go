package announce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
)

// needsInfo skips a rule that needs PluginInfo.
func needsInfo(s *suite.Subject) error {
	switch {
	case s.InfoErr != nil:
		return suite.Skip("PluginInfo does not answer")
	case s.Info == nil:
		return suite.Skip("the process has no PluginInfo")
	}
	return nil
}

func checkInfo(ctx context.Context, s *suite.Subject) error {
	if s.InfoErr != nil {
		return s.InfoErr
	}
	if err := needsInfo(s); err != nil {
		return err
	}
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	again, err := plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(ctx, &plugininfov1.GetPluginInfoRequest{})
	if err != nil {
		return err
	}
	if !proto.Equal(again, s.Info) {
		return fmt.Errorf("the first time it answered %v, the second time %v", s.Info, again)
	}
	for field, version := range map[string]string{
		"plugin_version": s.Info.GetPluginVersion(), "framework_version": s.Info.GetFrameworkVersion(),
	} {
		if version == "" {
			continue
		}
		if err := hostapi.Line(field, version); err != nil {
			return err
		}
	}
	return nil
}

func checkInfoConsistent(_ context.Context, s *suite.Subject) error {
	if err := needsInfo(s); err != nil {
		return err
	}
	if s.ListErr != nil {
		return suite.Skip("PluginLister does not answer")
	}
	told := map[[2]string]bool{}
	for _, plugin := range s.Info.GetPlugins() {
		wire := hostapi.WireKind(plugin.GetKind(), int(plugin.GetVersion()))
		key := [2]string{wire, plugin.GetName()}
		named, _ := hostapi.SplitWireKind(wire)
		switch {
		case plugin.GetKind() == "":
			return fmt.Errorf("%q has no kind", plugin.GetName())
		case plugin.GetVersion() < 1:
			return fmt.Errorf("%s %s has the version %d", plugin.GetKind(), plugin.GetName(), plugin.GetVersion())
		case named != plugin.GetKind():
			return fmt.Errorf("the kind of %s is %q, with its version", plugin.GetName(), plugin.GetKind())
		case told[key]:
			return fmt.Errorf("%s %s is there twice", wire, plugin.GetName())
		}
		told[key] = true
	}
	listed := map[[2]string]bool{}
	for _, plugin := range s.Listed {
		key := [2]string{plugin.GetKind(), plugin.GetName()}
		listed[key] = true
		if !told[key] {
			return fmt.Errorf("PluginInfo does not have %s %s, which PluginLister lists", plugin.GetKind(), plugin.GetName())
		}
	}
	for key := range told {
		if slices.Contains(wire.VeleroKinds(), key[0]) && !listed[key] {
			return fmt.Errorf("PluginLister does not list %s %s, which PluginInfo has", key[0], key[1])
		}
	}
	return nil
}

func checkSchemas(_ context.Context, s *suite.Subject) error {
	if err := needsInfo(s); err != nil {
		return err
	}
	for _, plugin := range s.Info.GetPlugins() {
		if len(plugin.GetConfigSchema()) == 0 {
			continue
		}
		if _, err := suite.CompileSchema(plugin.GetConfigSchema()); err != nil {
			return fmt.Errorf("config schema of %s %s: %w", plugin.GetKind(), plugin.GetName(), err)
		}
	}
	return nil
}

func checkLimits(_ context.Context, s *suite.Subject) error {
	if err := needsInfo(s); err != nil {
		return err
	}
	starting := wire.KindsWhere(func(k wire.ActionKind) bool { return k.Progress != nil })
	for _, plugin := range s.Info.GetPlugins() {
		kind, longest, stall := hostapi.WireKind(plugin.GetKind(), int(plugin.GetVersion())), plugin.GetOperationTimeout(),
			plugin.GetStallTimeout()
		for field, limit := range map[string]*durationpb.Duration{"operation_timeout": longest, "stall_timeout": stall} {
			switch {
			case limit == nil:
			case !slices.Contains(starting, kind):
				return fmt.Errorf("%s of %s %s: the kind starts no operations", field, kind, plugin.GetName())
			case limit.CheckValid() != nil:
				return fmt.Errorf("%s of %s %s: %w", field, kind, plugin.GetName(), limit.CheckValid())
			case limit.AsDuration() < time.Second:
				return fmt.Errorf("%s of %s %s is %s", field, kind, plugin.GetName(), limit.AsDuration())
			}
		}
		if longest != nil && stall != nil && stall.AsDuration() >= longest.AsDuration() {
			return fmt.Errorf("stall_timeout of %s %s is %s, and operation_timeout %s", kind, plugin.GetName(),
				stall.AsDuration(), longest.AsDuration())
		}
	}
	return nil
}

func checkRoles(_ context.Context, s *suite.Subject) error {
	if err := needsInfo(s); err != nil {
		return err
	}
	for _, plugin := range s.Info.GetPlugins() {
		for i, role := range plugin.GetRoles() {
			switch kinds := framework.Role(role).Kinds(); {
			case kinds == nil:
				return fmt.Errorf("%s %s has role %q, which does not exist", plugin.GetKind(), plugin.GetName(), role)
			case !slices.Contains(kinds, plugin.GetKind()):
				return fmt.Errorf("%s %s has role %q, which is for %v", plugin.GetKind(), plugin.GetName(), role, kinds)
			case slices.Contains(plugin.GetRoles()[:i], role):
				return fmt.Errorf("%s %s has role %q twice", plugin.GetKind(), plugin.GetName(), role)
			}
		}
	}
	return nil
}
