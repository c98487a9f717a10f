package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// simulation simulates the queue. It asks the policy as a server would. Backups do no work: in each round the one that
// has run longest ends. Time passes only while no backup runs and the policy asks to be called again later.
type simulation struct {
	decide     func(context.Context, *queueadmission.Snapshot) (*queueadmission.Decision, error)
	backups    []*velerov1.Backup // modified by the simulation
	namespaces []string           // of the cluster
	limit      int
	now        time.Time

	resolver queue.Resolver
	running  []string // in the order in which they end
}

// rounds simulates until all backups have ended, and calls each with every round. It returns the names of the backups
// that the policy never admits.
func (s *simulation) rounds(ctx context.Context, each func(status.Round) error) (stuck []string, err error) {
	for number := 1; ; number++ {
		line := queue.NewLine(s.backups)
		if len(line.Running)+len(line.Ready)+len(line.Queued) == 0 {
			return nil, nil
		}
		if number == 1 {
			s.running = namesOf(line.Running)
		}
		r := status.Round{Round: number, Running: slices.Clone(s.running), Starts: namesOf(line.Ready)}
		decision, passed, err := s.ask(ctx, line)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", number, err)
		}
		if passed > 0 {
			r.After = passed.Round(time.Second).String()
		}
		r.Starts = append(r.Starts, decision.Admit...)
		for i, waiting := range decision.Waiting {
			r.Waiting = append(r.Waiting, status.Waiter{
				Position: i + 1, Name: waiting.Name, Reason: waiting.Reason, Message: waiting.Message, Blockers: waiting.Blockers,
				Namespaces: waiting.Namespaces,
			})
		}
		if err := s.carryOut(line, decision, r.Starts); err != nil {
			return nil, err
		}
		if len(s.running) == 0 {
			for _, waiting := range r.Waiting {
				stuck = append(stuck, waiting.Name)
			}
			return stuck, each(r)
		}
		r.Ends, s.running = s.running[0], s.running[1:]
		s.backups = slices.DeleteFunc(s.backups, func(b *velerov1.Backup) bool { return b.Name == r.Ends })
		if err := each(r); err != nil {
			return nil, err
		}
	}
}

// ask returns the next decision and the time that passed before it. While no backup runs and none is admitted, it asks
// again at the time that the policy names.
func (s *simulation) ask(
	ctx context.Context, line queue.Line,
) (decision *queueadmission.Decision, passed time.Duration, err error) {
	for asked := 0; ; asked++ {
		decision, err := s.decide(ctx, s.resolver.Snapshot(line, s.namespaces, s.limit, s.now))
		if err != nil {
			return nil, 0, err
		}
		idle := len(line.Running)+len(line.Ready)+len(decision.Admit) == 0
		if !idle || decision.RecheckAfter == 0 || asked == maxAsked || passed+decision.RecheckAfter > maxPassed {
			return decision, passed, nil
		}
		passed += decision.RecheckAfter
		s.now = s.now.Add(decision.RecheckAfter)
	}
}

// carryOut applies a decision to the backups and starts the ready ones.
func (s *simulation) carryOut(line queue.Line, decision *queueadmission.Decision, starts []string) error {
	plan := queue.NewPlan(line, decision, "", queue.DefaultExact(), s.now)
	for _, b := range plan.Admit {
		queue.Admit(b)
	}
	for _, placement := range plan.Place {
		if err := placement.Apply(placement.Backup); err != nil {
			return err
		}
	}
	for _, b := range s.backups {
		if b.Status.Phase == velerov1.BackupPhaseReadyToStart && b.DeletionTimestamp == nil {
			b.Status.Phase, b.Status.StartTimestamp = velerov1.BackupPhaseInProgress, new(metav1.NewTime(s.now))
		}
	}
	s.running = append(s.running, starts...)
	return nil
}

const (
	maxAsked  = 1000                // calls of the policy in a round
	maxPassed = 31 * 24 * time.Hour // time in a round
)

func namesOf(backups []*velerov1.Backup) []string {
	var names []string
	for _, b := range backups {
		names = append(names, b.Name)
	}
	return names
}

// namedBy returns the namespaces that backups name without a pattern.
func namedBy(backups []*velerov1.Backup) []string {
	var names []string
	for _, b := range backups {
		for _, name := range slices.Concat(b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces) {
			if name != "" && !filter.IsGlob(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
