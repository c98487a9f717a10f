package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func announceRules() []Rule {
	whole := []string{Process}
	return []Rule{
		{
			ID: "list-answers", Kinds: whole, Severity: Must, check: checkList,
			Text: "PluginLister answers the same each time: what a process serves is constant.",
		},
		{
			ID: "list-not-empty", Kinds: whole, Severity: Must, check: checkListNotEmpty,
			Text: "The process announces at least one plugin, in PluginLister or in PluginInfo.",
		},
		{
			ID: "list-kinds", Kinds: whole, Severity: Must, check: checkListKinds,
			Text: "PluginLister lists only kinds of Velero, which does not start if it finds others. PluginInfo announces the others.",
		},
		{
			ID: "list-order", Kinds: whole, Severity: Must, check: checkListOrder,
			Text: "PluginLister lists the kinds in the order " + strings.Join(wire.VeleroKinds(), ", ") +
				", and the names of a kind sorted: actions run in the order of the list.",
		},
		{
			ID: "list-once", Kinds: whole, Severity: Must, check: checkListOnce,
			Text: "PluginLister lists each kind and name once. A host refuses a plugin that is listed twice.",
		},
		{
			ID: "list-names", Kinds: whole, Severity: Must, check: checkNames,
			Text: `Each name is "domain/name": two parts that are not empty, the first one a DNS-1123 subdomain.`,
		},
		{
			ID: "list-command", Kinds: whole, Severity: Should, check: checkListCommand,
			Text: "The command in the list is the path by which the process was started: Velero starts it again by that path.",
		},
		{
			ID: "info-answers", Kinds: whole, Severity: Must, check: checkInfo,
			Text: "PluginInfo, if it is served, answers the same each time. Versions are single lines.",
		},
		{
			ID: "info-consistent", Kinds: whole, Severity: Must, check: checkInfoConsistent,
			Text: "PluginInfo has each kind, version and name once, all that PluginLister lists, and no other plugin of Velero's kinds. " +
				`The kind stands there without its version ("BackupItemAction"), the version is 1 or more.`,
		},
		{
			ID: "info-schema", Kinds: whole, Severity: Must, check: checkSchemas,
			Text: "A config schema in PluginInfo is a JSON Schema of an object. The host validates the config of users by it.",
		},
		{
			ID: "served", Kinds: []string{AnyKind}, Severity: Must, check: checkServed,
			Text: "The service of each announced kind and version is served.",
		},
		{
			ID: "unknown-name", Kinds: []string{AnyKind}, Severity: Must, check: checkUnknownName,
			Text: "A request for a plugin that the process does not serve is an error.",
		},
	}
}

func checkList(ctx context.Context, s *subject) error {
	if s.listErr != nil {
		return s.listErr
	}
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	again, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	if err != nil {
		return err
	}
	if !proto.Equal(again, &pluginlisterv1.ListPluginsResponse{Plugins: s.listed}) {
		return fmt.Errorf("the first time it listed %d plugins %v, the second time %d %v",
			len(s.listed), s.listed, len(again.GetPlugins()), again.GetPlugins())
	}
	return nil
}

func checkListNotEmpty(_ context.Context, s *subject) error {
	if s.listErr != nil {
		return skip("the list does not answer")
	}
	if len(s.served()) == 0 {
		return fmt.Errorf("it announces nothing")
	}
	return nil
}

func checkListKinds(_ context.Context, s *subject) error {
	for _, plugin := range s.listed {
		if !slices.Contains(wire.VeleroKinds(), plugin.GetKind()) {
			return fmt.Errorf("it lists the kind %q", plugin.GetKind())
		}
	}
	return nil
}

func checkListOrder(_ context.Context, s *subject) error {
	var known []*pluginlisterv1.PluginIdentifier
	for _, plugin := range s.listed {
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

func checkListOnce(_ context.Context, s *subject) error {
	seen := map[[2]string]bool{}
	for _, plugin := range s.listed {
		key := [2]string{plugin.GetKind(), plugin.GetName()}
		if seen[key] {
			return fmt.Errorf("%s %s is there twice", plugin.GetKind(), plugin.GetName())
		}
		seen[key] = true
	}
	return nil
}

func checkNames(_ context.Context, s *subject) error {
	for _, plugin := range s.served() {
		if err := hostapi.ValidateName(plugin.name); err != nil {
			return fmt.Errorf("%s: %w", plugin.kind, err)
		}
	}
	return nil
}

func checkListCommand(ctx context.Context, s *subject) error {
	process, err := s.needsProcess(ctx)
	if err != nil {
		return err
	}
	for _, plugin := range s.listed {
		if command := plugin.GetCommand(); command != process.Cmd.Args[0] && command != process.Cmd.Path { // a script sees the link to it
			return fmt.Errorf("command is %q, and the process was started as %q", command, process.Cmd.Args[0])
		}
	}
	return nil
}

// needsInfo skips a rule that needs PluginInfo.
func (s *subject) needsInfo() error {
	switch {
	case s.infoErr != nil:
		return skip("PluginInfo does not answer")
	case s.info == nil:
		return skip("the process has no PluginInfo")
	}
	return nil
}

func checkInfo(ctx context.Context, s *subject) error {
	if s.infoErr != nil {
		return s.infoErr
	}
	if err := s.needsInfo(); err != nil {
		return err
	}
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	again, err := plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(ctx, &plugininfov1.GetPluginInfoRequest{})
	if err != nil {
		return err
	}
	if !proto.Equal(again, s.info) {
		return fmt.Errorf("the first time it answered %v, the second time %v", s.info, again)
	}
	for field, version := range map[string]string{
		"plugin_version": s.info.GetPluginVersion(), "framework_version": s.info.GetFrameworkVersion(),
	} {
		if version == "" {
			continue
		}
		if err := checkLine(field, version); err != nil {
			return err
		}
	}
	return nil
}

func checkInfoConsistent(_ context.Context, s *subject) error {
	if err := s.needsInfo(); err != nil {
		return err
	}
	if s.listErr != nil {
		return skip("PluginLister does not answer")
	}
	told := map[[2]string]bool{}
	for _, plugin := range s.info.GetPlugins() {
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
	for _, plugin := range s.listed {
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

func checkSchemas(_ context.Context, s *subject) error {
	if err := s.needsInfo(); err != nil {
		return err
	}
	for _, plugin := range s.info.GetPlugins() {
		if len(plugin.GetConfigSchema()) == 0 {
			continue
		}
		if _, err := compileSchema(plugin.GetConfigSchema()); err != nil {
			return fmt.Errorf("config schema of %s %s: %w", plugin.GetKind(), plugin.GetName(), err)
		}
	}
	return nil
}

// compileSchema compiles a config schema.
func compileSchema(raw []byte) (*jsonschema.Schema, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	const place = "config.json"
	if err := compiler.AddResource(place, document); err != nil {
		return nil, err
	}
	return compiler.Compile(place)
}

// fitsSchema validates a config against the schema that a plugin announces. Every config is valid if there is no schema.
func fitsSchema(raw, config []byte) error {
	if len(raw) == 0 {
		return nil
	}
	schema, err := compileSchema(raw)
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err != nil {
		return err
	}
	return schema.Validate(document)
}

// unserved returns an error if the plugin is not served, so that nothing else can be checked.
func (s *subject) unserved(ctx context.Context) error {
	return remembered(s, "unserved", func() error {
		known, ok := wire.Probes()[s.kind]
		if !ok {
			return skip("this suite does not know the kind")
		}
		conn, err := s.conn(ctx)
		if err != nil {
			return err
		}
		ctx, cancel := s.call(ctx)
		defer cancel()
		if err := known.Call(ctx, conn, s.name); status.Code(err) == codes.Unimplemented {
			return fmt.Errorf("%s: %w", known.Method, err)
		}
		return nil
	})
}

func checkServed(ctx context.Context, s *subject) error { return s.unserved(ctx) }

// needsService skips a rule if the plugin is not served.
func (s *subject) needsService(ctx context.Context) error {
	if s.unserved(ctx) != nil {
		return skip("it is not served")
	}
	return nil
}

func checkUnknownName(ctx context.Context, s *subject) error {
	if err := s.needsService(ctx); err != nil {
		return err
	}
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	known := wire.Probes()[s.kind]
	err = known.Call(ctx, conn, "conformance.invalid/nobody")
	if err == nil {
		return fmt.Errorf("%s of a plugin that does not exist returns the status OK", known.Method)
	}
	return notHung(err)
}

// notHung returns err if there was no answer, or the process has exited, and nil for any other answer.
func notHung(err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable:
		return err
	}
	return nil
}
