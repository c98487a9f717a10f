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

	"github.com/cleat-dev/cleat/framework"
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
	items   []sample
	queues  []*queueadmissionv1.DecideRequest // of the caller
	output  output
	process *subject // the process as a whole, first
	plugins []*subject

	failed  error // why there is nothing to test
	listed  []*pluginlisterv1.PluginIdentifier
	listErr error
	info    *plugininfov1.GetPluginInfoResponse // nil when the process has none
	infoErr error
	done    int
	total   int
}

// subject is what a rule is checked on: a plugin, or the process as a whole.
type subject struct {
	*suite
	kind   string // word of the wire, or Process
	name   string
	schema []byte // of its config
	host   *host
	memory map[string]any // what the checks have found out, see remembered
}

// host is a run of the target that is there when it is needed: it is started again when it has ended. Its methods may be
// called concurrently.
type host struct {
	suite       *suite
	environment []string // beside the usual one; changed only while nothing runs

	mu         sync.Mutex
	current    *running
	configured *grpc.ClientConn // the connection of the run in which Init was called
	death      string           // how a run ended by itself, which nobody has been told yet
}

// open starts the target and asks what it serves.
func open(ctx context.Context, target Target, opts []Option) (*suite, error) {
	s := &suite{options: newOptions(opts), target: target}
	var err error
	if s.items, err = s.samples(); err != nil {
		return nil, err
	}
	for i, raw := range s.options.snapshots {
		snapshot, err := parseSnapshot(raw)
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
		if ownProcess(found.kind) {
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

// ask asks the process what it serves, in Velero's way and in ours.
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

// served is one implementation that the process says it serves.
type served struct {
	kind, name string
	schema     []byte
}

// served are all of them: those of the list, and then those that PluginInfo alone tells of. Each once.
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
		add(framework.WireKind(plugin.GetKind(), int(plugin.GetVersion())), plugin.GetName(), plugin.GetConfigSchema())
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

// checks are all that there is to do, in order.
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

// run checks one rule.
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
		return one.rule.result(errInterrupted(), "", time.Since(began)) // which the check may take for something else
	}
	died := one.subject.host.died(ctx, err)
	if hung(err) {
		one.subject.host.stop() // what hangs there now would be in the way of the next rules
	}
	return one.rule.result(err, died, time.Since(began))
}

// errInterrupted is why a rule was not checked after the end of the context.
func errInterrupted() error { return skip("the test was interrupted before the end of this check") }

func (s *suite) close() {
	s.process.host.stop()
	for _, plugin := range s.plugins {
		plugin.host.stop()
	}
}

// usualArgs are flags that a server passes on to its plugins: those that it was started with itself.
func usualArgs() []string { return []string{"--features=", "--log-level=info", "--log-format=text"} }

// start runs the target once more, beside the processes that run already.
func (s *suite) start(ctx context.Context, l launch) (*running, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if l.args == nil {
		l.args = usualArgs()
	}
	l.environment = slices.Concat(s.environment, l.environment)
	l.log = &s.output
	return s.target.start(ctx, l)
}

// conn is the connection to the run, which is started when there is none.
func (h *host) conn(ctx context.Context) (*grpc.ClientConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != nil {
		if h.current.process == nil || !h.current.process.ended() {
			return h.current.conn, nil
		}
		h.death = h.current.process.last()
		h.stopLocked()
	}
	current, err := h.suite.start(ctx, launch{environment: h.environment})
	if err != nil {
		return nil, err
	}
	h.current = current
	return current.conn, nil
}

// process is that of the run; nil when it runs in this process, or does not run.
func (h *host) process() *process {
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

// died says how the process ended, if it has since the last time. A connection that is lost is a sign that it is about to.
func (h *host) died(ctx context.Context, err error) string {
	wait := time.Duration(0)
	if status.Code(err) == codes.Unavailable {
		wait = patience
	}
	if p := h.process(); p != nil && p.endsWithin(ctx, wait) {
		h.mu.Lock()
		h.death = p.last()
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

// remembered is what find finds out, once per subject; later checks get the same.
func remembered[T any](s *subject, key string, find func() T) T {
	if known, ok := s.memory[key].(*T); ok {
		return *known
	}
	found := find()
	s.memory[key] = &found
	return found
}

// conn is the connection to the plugin.
func (s *subject) conn(ctx context.Context) (*grpc.ClientConn, error) { return s.host.conn(ctx) }

// call bounds one call.
func (s *subject) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

// stream bounds a call that may take as long as its messages move: do tells of each.
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

// settled asks again and again after calls that the host gave up. Nobody tells when the plugin hears of those, so what harm
// they do may show late: there are pauses, which grow and are as long as an answer takes on this machine, up to a second.
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
