package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	cliqueue "github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	specfilter "github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// mostStarts is the number of backups whose start a forecast shows.
const mostStarts = 10

// imaginedName is the name of a backup that one would create, in forecasts.
const imaginedName = "a-new-backup"

// forecast is what would start next in the queue.
type forecast struct {
	*status.Simulation        // nil if there is none
	Problem            string `json:"problem,omitempty"` // why there is none

	Table   layout.Table `json:"-"`
	For     string       `json:"-"` // namespaces of a backup that one would create, as they were asked for; "" for none
	Verdict string       `json:"-"` // when that one would start
}

// newForecast returns what would start next, with a backup that one would create now of the namespaces in the request.
func newForecast(
	l *console.Look, f *cliqueue.Forecaster, line queue.Line, server *serverAnswer,
) (*forecast, error) {
	doc := &forecast{For: strings.TrimSpace(l.Value("namespaces"))}
	of := cliqueue.Forecast{Backups: slices.Concat(line.Running, line.Ready, line.Queued, line.Operating),
		Limit: server.Queue.Limit, Starts: mostStarts}
	if doc.For != "" {
		b, err := imagined(doc.For, of.Backups)
		if err != nil {
			return nil, err
		}
		of.Until = b.Name
		of.Backups = append(of.Backups, b)
	} else if len(line.Queued) == 0 {
		return nil, nil
	}
	if server.Queue.Policy == nil {
		doc.Problem = layout.OneLine("The policy of the queue is not known: " + server.Queue.Problem)
		return doc, nil
	}
	if of.Policy = server.Queue.Policy.Decides; of.Policy == "" {
		doc.Problem = "No policy decides now: the queue is held."
		return doc, nil
	}
	var unknown string
	of.Settings, unknown = settingsOf(l, server)
	namespaces, noNamespaces := console.List[*corev1.Namespace](l, namespaceKind)
	for _, namespace := range namespaces {
		of.Namespaces = append(of.Namespaces, namespace.Name)
	}
	if noNamespaces != nil {
		of.Namespaces = nil // those that the backups name
	}
	answer, answered := console.Ask(l, "forecast/"+fingerprint(&of), askAgain, func(ctx context.Context) *forecast {
		simulation, err := f.Simulate(ctx, of)
		if err != nil {
			return &forecast{Problem: layout.OneLine(err.Error())}
		}
		return &forecast{Simulation: simulation}
	})
	if !answered {
		doc.Problem = "It is being simulated; an open page shows the answer when it is there."
		return doc, nil
	}
	doc.Simulation, doc.Problem = answer.Simulation, answer.Problem
	if doc.Simulation != nil {
		doc.Table = status.SimulationTable(doc.Simulation)
		if doc.Problem = unknown; of.Until != "" {
			doc.Verdict = verdict(doc.Table, of.Until)
		}
	}
	return doc, nil
}

// imagined returns a backup of namespaces, which are separated by commas, as if it was created now.
func imagined(namespaces string, others []*velerov1.Backup) (*velerov1.Backup, error) {
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: imaginedName, UID: types.UID(imaginedName),
		CreationTimestamp: metav1.Now()}}
	for slices.ContainsFunc(others, func(o *velerov1.Backup) bool { return o.Name == b.Name }) {
		b.Name += "-1"
	}
	for name := range strings.SplitSeq(namespaces, ",") {
		name = strings.TrimSpace(name)
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 && !specfilter.IsGlob(name) {
			return nil, console.Wrong{Text: fmt.Sprintf("namespaces=%q: %s", name, wrong[0])}
		}
		b.Spec.IncludedNamespaces = append(b.Spec.IncludedNamespaces, name)
	}
	return b, nil
}

// settingsOf returns the settings of the policy that decides, and a sentence if they are not known.
func settingsOf(l *console.Look, server *serverAnswer) (settings *config.Policy, unknown string) {
	policy := server.Queue.Policy
	found, answered := askConfig(l)
	switch {
	case !answered:
		return nil, "Simulated with the defaults of policy " + policy.Decides + ", whose settings are being read."
	case found.Problem != "":
		return nil, "Simulated with the defaults of policy " + policy.Decides + ", because " + found.Problem + "."
	case found.File.Backups.Admission.Plugin == policy.Decides:
		return &found.File.Backups.Admission, ""
	default:
		return nil, ""
	}
}

// verdict returns when a backup starts, by the table of a simulation.
func verdict(t layout.Table, name string) string {
	for _, row := range t.Rows {
		if row[1] != name {
			continue
		}
		text := "It would start " + row[2]
		if row[3] != "" {
			text += ". Until then: " + row[3]
		}
		return text
	}
	return "It would not start for a long time."
}

// fingerprint identifies a forecast.
func fingerprint(of *cliqueue.Forecast) string {
	sum := sha256.New()
	encoder := json.NewEncoder(sum)
	for _, b := range of.Backups {
		_ = encoder.Encode([]any{b.UID, b.Name, b.Status.Phase, b.Status.QueuePosition,
			b.Spec.IncludedNamespaces}) // to memory
	}
	_ = encoder.Encode([]any{of.Policy, of.Settings, of.Namespaces, of.Limit, of.Until})
	return hex.EncodeToString(sum.Sum(nil))
}
