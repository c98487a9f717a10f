package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/queue"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Suite is one test of a target.
type Suite struct {
	*Options
	Target  Target
	Items   []sample.Sample
	Queues  []*queueadmissionv1.DecideRequest // given by the caller
	Output  process.Output
	Process *Subject // the process as a whole
	Plugins []*Subject

	// What the target announces. Info is nil if the process does not serve PluginInfo.
	Listed  []*pluginlisterv1.PluginIdentifier
	ListErr error
	Info    *plugininfov1.GetPluginInfoResponse
	InfoErr error

	failed error // why the process did not start
}

// Open starts the target and asks it what it serves.
func Open(ctx context.Context, target Target, options *Options) (*Suite, error) {
	s := &Suite{Options: options, Target: target}
	var err error
	if s.Items, err = sample.All(options.Items); err != nil {
		return nil, err
	}
	for i, raw := range options.Snapshots {
		snapshot, err := queue.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("snapshot %d: %w", i+1, err)
		}
		s.Queues = append(s.Queues, snapshot)
	}
	s.Process = newSubject(s, Process, "")
	conn, err := s.Process.Conn(ctx)
	if err != nil {
		s.failed = err
		return s, nil
	}
	s.ask(ctx, conn)
	if err := s.checkConfig(); err != nil {
		s.Close()
		return nil, err
	}
	var served []string
	for _, found := range s.Served() {
		served = append(served, found.Name)
		if !s.wants(found.Name) {
			continue
		}
		one := newSubject(s, found.Kind, found.Name)
		one.Schema = found.schema
		s.Plugins = append(s.Plugins, one)
	}
	if len(s.Plugins) == 0 && len(s.Only) > 0 {
		s.Close()
		return nil, fmt.Errorf("%s serves no plugin named %s; it serves: %s", target, strings.Join(s.Only, " or "),
			strings.Join(slices.Compact(slices.Sorted(slices.Values(served))), ", "))
	}
	return s, nil
}

// ask calls PluginLister and PluginInfo.
func (s *Suite) ask(ctx context.Context, conn *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	list, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	s.Listed, s.ListErr = list.GetPlugins(), err
	s.Info, s.InfoErr = plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(ctx,
		&plugininfov1.GetPluginInfoRequest{})
	if status.Code(s.InfoErr) == codes.Unimplemented {
		s.Info, s.InfoErr = nil, nil
	}
}

// Implementation is an implementation of a kind that the process announces.
type Implementation struct {
	Kind, Name string
	schema     []byte
}

// Served returns all implementations, each once: those of PluginLister, then those that only PluginInfo has.
func (s *Suite) Served() []Implementation {
	var all []Implementation
	add := func(kind, name string, schema []byte) {
		at := slices.IndexFunc(all, func(known Implementation) bool { return known.Kind == kind && known.Name == name })
		if at < 0 {
			at = len(all)
			all = append(all, Implementation{Kind: kind, Name: name})
		}
		all[at].schema = schema
	}
	for _, plugin := range s.Listed {
		add(plugin.GetKind(), plugin.GetName(), nil)
	}
	for _, plugin := range s.Info.GetPlugins() {
		add(hostapi.WireKind(plugin.GetKind(), int(plugin.GetVersion())), plugin.GetName(), plugin.GetConfigSchema())
	}
	return all
}

// Close ends all processes.
func (s *Suite) Close() {
	s.Process.Host.Stop()
	for _, plugin := range s.Plugins {
		plugin.Host.Stop()
	}
}

// usualArgs returns flags like those that a server passes on to its plugins, which are its own.
func usualArgs() []string { return []string{"--features=", "--log-level=info"} }

// Start runs the target once more, beside the processes that run already.
func (s *Suite) Start(ctx context.Context, l process.Launch) (*Running, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if l.Args == nil {
		l.Args = usualArgs()
	}
	l.Environment = slices.Concat(s.Environment, l.Environment)
	l.Log = &s.Output
	return s.Target.Start(ctx, l)
}

// Call returns a context with the timeout of one call.
func (s *Suite) Call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.Timeout)
}

// Stream limits the time between the messages of a call. do must call moved for each message.
func (s *Suite) Stream(ctx context.Context, do func(ctx context.Context, moved func()) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(s.Timeout, cancel)
	err := do(ctx, func() { stalled.Reset(s.Timeout) })
	if inTime := stalled.Stop(); !inTime && err != nil {
		return status.Errorf(codes.DeadlineExceeded, "no message moved for %s", s.Timeout)
	}
	return err
}
