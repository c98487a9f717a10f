package announce

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/framework/hostapi"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func checkList(ctx context.Context, s *suite.Subject) error {
	if s.ListErr != nil {
		return s.ListErr
	}
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	again, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	if err != nil {
		return err
	}
	if !proto.Equal(again, &pluginlisterv1.ListPluginsResponse{Plugins: s.Listed}) {
		return fmt.Errorf("the first time it listed %d plugins %v, the second time %d %v",
			len(s.Listed), s.Listed, len(again.GetPlugins()), again.GetPlugins())
	}
	return nil
}

func checkListNotEmpty(_ context.Context, s *suite.Subject) error {
	if s.ListErr != nil {
		return suite.Skip("the list does not answer")
	}
	if len(s.Served()) == 0 {
		return fmt.Errorf("it announces nothing")
	}
	return nil
}

func checkListKinds(_ context.Context, s *suite.Subject) error {
	for _, plugin := range s.Listed {
		if !slices.Contains(wire.VeleroKinds(), plugin.GetKind()) {
			return fmt.Errorf("it lists the kind %q", plugin.GetKind())
		}
	}
	return nil
}

func checkListOrder(_ context.Context, s *suite.Subject) error {
	var known []*pluginlisterv1.PluginIdentifier
	for _, plugin := range s.Listed {
		if slices.Contains(wire.VeleroKinds(), plugin.GetKind()) {
			known = append(known, plugin)
		}
	}
	for i := 1; i < len(known); i++ {
		before, after := known[i-1], known[i]
		if cmp.Or(
			cmp.Compare(slices.Index(wire.VeleroKinds(), before.GetKind()), slices.Index(wire.VeleroKinds(), after.GetKind())),
			cmp.Compare(before.GetName(), after.GetName()),
		) > 0 {
			return fmt.Errorf("%s %s stands after %s %s", after.GetKind(), after.GetName(), before.GetKind(), before.GetName())
		}
	}
	return nil
}

func checkListOnce(_ context.Context, s *suite.Subject) error {
	seen := map[[2]string]bool{}
	for _, plugin := range s.Listed {
		key := [2]string{plugin.GetKind(), plugin.GetName()}
		if seen[key] {
			return fmt.Errorf("%s %s is there twice", plugin.GetKind(), plugin.GetName())
		}
		seen[key] = true
	}
	return nil
}

func checkNames(_ context.Context, s *suite.Subject) error {
	for _, plugin := range s.Served() {
		if err := hostapi.ValidateName(plugin.Name); err != nil {
			return fmt.Errorf("%s: %w", plugin.Kind, err)
		}
	}
	return nil
}

func checkListCommand(ctx context.Context, s *suite.Subject) error {
	process, err := s.NeedsProcess(ctx)
	if err != nil {
		return err
	}
	for _, plugin := range s.Listed {
		if command := plugin.GetCommand(); command != process.Cmd.Args[0] && command != process.Cmd.Path {
			// a script sees the link to it
			return fmt.Errorf("command is %q, and the process was started as %q", command, process.Cmd.Args[0])
		}
	}
	return nil
}
