package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/queue"
	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	"github.com/cleat-dev/cleat/framework/hostapi"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Run checks all rules that make sense for a target. What is wrong with the target is in the report. An error without a report
// means that the test could not be made. When ctx ends, Run returns both: the report as far as it goes, in which all other
// rules are skipped, and the cause.
func Run(ctx context.Context, target Target, opts ...Option) (*Report, error) {
	s, err := open(ctx, target, opts)
	if err != nil {
		return nil, err
	}
	defer s.close()
	report := s.report()
	for _, one := range s.checks() {
		report.add(one.subject.kind, one.subject.name, s.run(ctx, one))
	}
	if ctx.Err() != nil {
		report.Interrupted = true
		return report, context.Cause(ctx)
	}
	return report, nil
}

// suite is one test of a target.
type suite struct {
	*options
	target  Target
	items   []sample.Sample
	queues  []*queueadmissionv1.DecideRequest // given by the caller
	output  process.Output
	process *subject // the process as a whole
	plugins []*subject

	failed  error // why the process did not start
	listed  []*pluginlisterv1.PluginIdentifier
	listErr error
	info    *plugininfov1.GetPluginInfoResponse // nil if the process does not serve PluginInfo
	infoErr error
	done    int
	total   int
}

// subject is a plugin that rules are checked on, or the process as a whole.
type subject struct {
	*suite
	kind   string // name on the wire, or Process
	name   string
	schema []byte // of its config
	host   *host
	memory map[string]any // results that checks share, see remembered
}

// host runs the target when it is needed, and starts it again when it has ended. Its methods may be called concurrently.
// beside the usual one; changed only while nothing runs
type host struct {
	suite       *suite
	environment []string // beside the usual one; changed only while nothing runs

	mu         sync.Mutex
	current    *running
	configured *grpc.ClientConn // the connection of the run in which Init was called
	death      string           // how a run ended by itself, until died has returned it
}

// open starts the target and asks it what it serves.
func open(ctx context.Context, target Target, opts []Option) (*suite, error) {
	s := &suite{options: newOptions(opts), target: target}
	var err error
	if s.items, err = sample.All(s.options.items); err != nil {
		return nil, err
	}
	for i, raw := range s.snapshots {
		snapshot, err := queue.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("snapshot %d: %w", i+1, err)
		}
		s.queues = append(s.queues, snapshot)
	}
	shared := &host{suite: s}
	s.process = &subject{suite: s, kind: Process, host: shared, memory: map[string]any{}}
	conn, err := shared.conn(ctx)
	if err != nil {
		s.failed = err
		return s, nil
	}
	s.ask(ctx, conn)
	var served []string
	for _, found := range s.served() {
		served = append(served, found.name)
		if !s.wants(found.name) {
			continue
		}
		one := &subject{suite: s, kind: found.kind, name: found.name, schema: found.schema, host: shared, memory: map[string]any{}}
		if wire.OwnProcess(found.kind) {
			one.host = &host{suite: s}
		}
		s.plugins = append(s.plugins, one)
	}
	if len(s.plugins) == 0 && len(s.only) > 0 {
		s.close()
		return nil, fmt.Errorf("%s serves no plugin named %s; it serves: %s", target, strings.Join(s.only, " or "),
			strings.Join(slices.Compact(slices.Sorted(slices.Values(served))), ", "))
	}
	return s, nil
}

// ask calls PluginLister and PluginInfo.
func (s *suite) ask(ctx context.Context, conn *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	list, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(ctx, &shared.Empty{})
	s.listed, s.listErr = list.GetPlugins(), err
	s.info, s.infoErr = plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(ctx, &plugininfov1.GetPluginInfoRequest{})
	if status.Code(s.infoErr) == codes.Unimplemented {
		s.info, s.infoErr = nil, nil
	}
}

// served is an implementation that the process announces.
type served struct {
	kind, name string
	schema     []byte
}

// served returns all implementations, each once: those of PluginLister, then those that only PluginInfo has.
func (s *suite) served() []served {
	var all []served
	add := func(kind, name string, schema []byte) {
		at := slices.IndexFunc(all, func(known served) bool { return known.kind == kind && known.name == name })
		if at < 0 {
			at = len(all)
			all = append(all, served{kind: kind, name: name})
		}
		all[at].schema = schema
	}
	for _, plugin := range s.listed {
		add(plugin.GetKind(), plugin.GetName(), nil)
	}
	for _, plugin := range s.info.GetPlugins() {
		add(hostapi.WireKind(plugin.GetKind(), int(plugin.GetVersion())), plugin.GetName(), plugin.GetConfigSchema())
	}
	return all
}

func (s *suite) report() *Report {
	return &Report{
		Target: s.target.String(), PluginVersion: s.info.GetPluginVersion(), FrameworkVersion: s.info.GetFrameworkVersion(),
	}
}

// check is one rule on one subject.
type check struct {
	rule    Rule
	subject *subject
}

// checks returns all checks in order.
func (s *suite) checks() []check {
	var first, middle, last []check
	for _, rule := range Rules() {
		if !rule.appliesTo(Process) {
			continue
		}
		if rule.last {
			last = append(last, check{rule, s.process})
		} else {
			first = append(first, check{rule, s.process})
		}
	}
	for _, plugin := range s.plugins {
		for _, rule := range Rules() {
			if rule.appliesTo(plugin.kind) {
				middle = append(middle, check{rule, plugin})
			}
		}
	}
	all := slices.Concat(first, middle, last)
	s.total = len(all)
	return all
}

// run performs one check.
func (s *suite) run(ctx context.Context, one check) Result {
	s.progress(Progress{
		Kind: one.subject.kind, Name: one.subject.name, Rule: one.rule.ID, Done: s.done, Total: s.total,
	})
	s.done++
	began := time.Now()
	if ctx.Err() != nil {
		return one.rule.result(errInterrupted(), "", 0)
	}
	if s.failed != nil {
		err := s.failed
		if one.rule.ID != startRule {
			err = skip("the plugin does not start")
		}
		return one.rule.result(err, "", time.Since(began))
	}
	err := one.rule.check(ctx, one.subject)
	if ctx.Err() != nil {
		return one.rule.result(errInterrupted(), "", time.Since(began)) // the check may have mistaken the end of the context for a defect
	}
	died := one.subject.host.died(ctx, err)
	if hung(err) {
		one.subject.host.stop() // calls that hang would disturb the next checks
	}
	return one.rule.result(err, died, time.Since(began))
}

// errInterrupted returns why a rule was not checked after the end of the context.
func errInterrupted() error { return skip("the test was interrupted before the end of this check") }

func (s *suite) close() {
	s.process.host.stop()
	for _, plugin := range s.plugins {
		plugin.host.stop()
	}
}

// usualArgs returns flags like those that a server passes on to its plugins, which are its own.
func usualArgs() []string { return []string{"--features=", "--log-level=info", "--log-format=text"} }

// start runs the target once more, beside the processes that run already.
func (s *suite) start(ctx context.Context, l process.Launch) (*running, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if l.Args == nil {
		l.Args = usualArgs()
	}
	l.Environment = slices.Concat(s.environment, l.Environment)
	l.Log = &s.output
	return s.target.start(ctx, l)
}

// conn returns the connection to the run, which it starts if necessary.
func (h *host) conn(ctx context.Context) (*grpc.ClientConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != nil {
		if h.current.process == nil || !h.current.process.Ended() {
			return h.current.conn, nil
		}
		h.death = h.current.process.Last()
		h.stopLocked()
	}
	current, err := h.suite.start(ctx, process.Launch{Environment: h.environment})
	if err != nil {
		return nil, err
	}
	h.current = current
	return current.conn, nil
}

// process returns the process of the run. It is nil if nothing runs, or if the plugin runs in this process.
func (h *host) process() *process.Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		return nil
	}
	return h.current.process
}

// take returns the run and forgets it, so that the next call starts another. It returns nil when nothing runs.
func (h *host) take() *running {
	h.mu.Lock()
	defer h.mu.Unlock()
	run := h.current
	h.current = nil
	return run
}

// stop kills the run, so that the next call starts another.
func (h *host) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopLocked()
}

func (h *host) stopLocked() {
	if h.current != nil {
		h.current.stop()
		h.current = nil
	}
}

// died describes how the process ended if it has ended since the last call, and returns "" otherwise. A lost
// connection is a sign that the process is about to end.
func (h *host) died(ctx context.Context, err error) string {
	wait := time.Duration(0)
	if status.Code(err) == codes.Unavailable {
		wait = process.Patience
	}
	if p := h.process(); p != nil && p.EndsWithin(ctx, wait) {
		h.mu.Lock()
		h.death = p.Last()
		h.stopLocked()
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.death == "" {
		return ""
	}
	death := "the process ended by itself: " + h.death
	h.death = ""
	return death
}

// remembered returns the result of find, which it calls once per subject and key.
func remembered[T any](s *subject, key string, find func() T) T {
	if known, ok := s.memory[key].(*T); ok {
		return *known
	}
	found := find()
	s.memory[key] = &found
	return found
}

// conn returns the connection to the plugin.
func (s *subject) conn(ctx context.Context) (*grpc.ClientConn, error) { return s.host.conn(ctx) }

// call returns a context with the timeout of one call.
func (s *subject) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

// stream limits the time between the messages of a call. do must call moved for each message.
func (s *subject) stream(ctx context.Context, do func(ctx context.Context, moved func()) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(s.timeout, cancel)
	err := do(ctx, func() { stalled.Reset(s.timeout) })
	if inTime := stalled.Stop(); !inTime && err != nil {
		return status.Errorf(codes.DeadlineExceeded, "no message moved for %s", s.timeout)
	}
	return err
}

// settled calls ask repeatedly after calls that the host has cancelled. The time at which the plugin notices the cancellation is not
// known, so their effect may show late. The pauses grow, and are at least as long as ask takes, up to a second.
func settled(ctx context.Context, ask func() error) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		began := time.Now()
		if err := ask(); err != nil || pause > 200*time.Millisecond {
			return err
		}
		if err := sleep(ctx, max(pause, min(time.Since(began), time.Second))); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
