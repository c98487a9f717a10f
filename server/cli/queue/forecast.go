package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// Forecaster simulates the present queue with the built-in policies, as "queue simulate" does with that of a file.
type Forecaster struct {
	App *command.App

	start sync.Once
	host  *pluginhost.Host
	err   error
}

// Forecast is what is simulated.
type Forecast struct {
	Policy     string         // that decides in the server
	Settings   *config.Policy // its settings in the server; nil for the defaults
	Backups    []*velerov1.Backup
	Namespaces []string // of the cluster; nil for those that the backups name
	Limit      int
	Starts     int    // how many backups have to start until the forecast ends
	Until      string // the backup that has to start too; may be empty
}

// mostRounds bounds a forecast.
const mostRounds = 1000

// errEnough ends a simulation.
var errEnough = errors.New("the forecast ends")

// Simulate returns in which order backups would start. It changes nothing of the forecast.
func (f *Forecaster) Simulate(ctx context.Context, of Forecast) (*status.Simulation, error) {
	f.start.Do(func() {
		builtIns := plugindir.Flags{Options: config.Defaults(), File: &config.File{}}
		source, err := builtIns.Open(context.WithoutCancel(ctx), f.App, nil)
		if err != nil {
			f.err = err
			return
		}
		f.host = source.Host
	})
	if f.err != nil {
		return nil, f.err
	}
	if _, err := f.host.Find(kinds.QueueAdmission().Name, of.Policy); err != nil {
		return nil, fmt.Errorf("policy %s is a plugin of the server alone: \"cleat queue simulate\" asks it where its "+
			"file is", of.Policy)
	}
	settings := config.Policy{Plugin: of.Policy}
	if of.Settings != nil {
		settings = *of.Settings
	}
	inForce, err := policy.New(&config.File{Backups: config.Backups{Admission: settings}},
		policy.Deps{Host: f.host, Log: hclog.NewNullLogger(), Now: time.Now})
	if err != nil {
		return nil, err
	}
	var backups []*velerov1.Backup
	for _, b := range of.Backups {
		if queue.InLine(b) || queue.Occupies(b) {
			backups = append(backups, b.DeepCopy())
		}
	}
	if of.Namespaces == nil {
		of.Namespaces = namedBy(backups)
	}
	doc := &status.Simulation{APIVersion: status.APIVersion, Kind: "QueueSimulation", Policy: of.Policy,
		Limit: max(1, of.Limit), Namespaces: of.Namespaces, Rounds: []status.Round{}}
	s := &simulation{backups: backups, namespaces: of.Namespaces, limit: doc.Limit, now: time.Now(),
		decide: decideBy(inForce)}
	doc.Stuck, err = s.rounds(ctx, func(r status.Round) error {
		doc.Rounds = append(doc.Rounds, r)
		doc.Order = append(doc.Order, r.Starts...)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(doc.Rounds) == mostRounds,
			len(doc.Order) >= of.Starts && (of.Until == "" || slices.Contains(doc.Order, of.Until)):
			return errEnough
		default:
			return nil
		}
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return doc, nil
}

// decideBy returns the function that asks the policy in force.
func decideBy(
	inForce *policy.Policies,
) func(context.Context, *queueadmission.Snapshot) (*queueadmission.Decision, error) {
	return func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
		outcome, err := inForce.Admission.Decide(ctx, snapshot)
		return outcome.Decision, err
	}
}
