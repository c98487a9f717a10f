package priority

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/internal/walk"
)

// Name is the registered name of the policy.
const Name = "cleat.dev/priority"

// Annotation sets the priority of a backup, a whole number from -1000 to 1000.
const Annotation = "cleat.dev/priority"

// Register returns the policy's registration.
func Register() framework.Registration {
	return qav1.Register(Name, newPolicy, framework.WithConfig(config{}, framework.ConfigSchema(schema)))
}

type policy struct {
	config config
	age    time.Duration // the interval after which the priority increases
}

func newPolicy(_ context.Context, setup *framework.Setup) (qav1.QueueAdmission, error) {
	c := framework.Config[config](setup)
	age, err := c.age()
	return policy{config: c, age: age}, err
}

var _ qav1.QueueAdmission = policy{}

// Decide implements qav1.QueueAdmission.
func (p policy) Decide(_ context.Context, snapshot *qav1.DecideInput) (*qav1.DecideOutput, error) {
	order := walk.Queue(snapshot)
	rank := make(map[*qav1.Backup]importance, len(order))
	for _, backup := range order {
		rank[backup] = p.config.importance(backup, snapshot.Now, p.age)
	}
	slices.SortStableFunc(order, func(a, b *qav1.Backup) int { return cmp.Compare(rank[b].now(), rank[a].now()) })

	decision := walk.Decide(snapshot, order, walk.Rule{})
	byName := make(map[string]*qav1.Backup, len(order))
	for _, backup := range order {
		byName[backup.Name] = backup
	}
	for i := range decision.Waits {
		wait := &decision.Waits[i]
		wait.Message += "; " + rank[byName[wait.Name]].String()
	}
	decision.RecheckAfter = recheck(decision.Order, byName, snapshot.Now, p.age)
	return decision, nil
}

// importance is the priority of a backup and how it was computed.
type importance struct {
	base   int
	aged   int    // the increase by waiting
	ignore string // why the annotation is ignored; usually empty
}

func (i importance) now() int { return i.base + i.aged }

// String returns a part of the message for a waiting backup.
func (i importance) String() string {
	text := fmt.Sprintf("its priority is %d", i.base)
	if i.aged > 0 {
		text += fmt.Sprintf(", and %d for waiting", i.aged)
	}
	return text + i.ignore
}

func (c config) importance(backup *qav1.Backup, now time.Time, age time.Duration) importance {
	i := importance{aged: int(max(0, now.Sub(backup.Created)) / age)}
	if text, annotated := backup.Annotations[Annotation]; annotated {
		number, err := strconv.Atoi(text)
		if err == nil && number >= -limit && number <= limit {
			i.base = number
			return i
		}
		i.ignore = fmt.Sprintf(" (annotation %s is %.20q, want a whole number from %d to %d)", Annotation, text, -limit,
			limit)
	}
	for _, rule := range c.Rules {
		if rule.fits(backup) {
			i.base = rule.Priority
			break
		}
	}
	return i
}

// recheck returns when the priority of a waiting backup next increases, or zero if that changes nothing.
func recheck(waiting []string, backups map[string]*qav1.Backup, now time.Time, age time.Duration) time.Duration {
	if len(waiting) < 2 {
		return 0
	}
	next := age
	for _, name := range waiting {
		next = min(next, age-max(0, now.Sub(backups[name].Created))%age)
	}
	return max(next, time.Second)
}
