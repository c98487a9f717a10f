package priority_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/priority"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// queued returns a backup of one namespace that has waited.
func queued(name, namespace string, waited time.Duration, change ...func(*qav1.Backup)) qav1.Backup {
	b := qav1.Backup{
		Name: name, Namespaces: []string{namespace}, Created: now.Add(-waited), Spec: []byte("{}"),
		Labels: map[string]string{}, Annotations: map[string]string{},
	}
	for _, f := range change {
		f(&b)
	}
	return b
}

// configured sets a configuration; an empty text is not a configuration.
func configured(text string) plugintest.Option {
	if text == "" {
		return plugintest.WithConfig(nil)
	}
	return plugintest.WithConfig(json.RawMessage(text))
}

func annotated(value string) func(*qav1.Backup) {
	return func(b *qav1.Backup) { b.Annotations[priority.Annotation] = value }
}

func labelled(key, value string) func(*qav1.Backup) {
	return func(b *qav1.Backup) { b.Labels[key] = value }
}

func TestBackupOfHighestPriorityStartsFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config  string
		queued  []qav1.Backup
		admit   string
		order   []string
		waits   map[string]string // may be incomplete
		recheck time.Duration
	}{
		"nothing is said of importance": {
			queued: []qav1.Backup{queued("a", "n1", 0), queued("b", "n2", 0)}, admit: "a", order: []string{"b"},
			waits: map[string]string{"b": "the limit of 1 running backup is reached; its priority is 0"},
		},
		"by annotation": {
			queued: []qav1.Backup{queued("a", "n1", 0), queued("b", "n2", 0, annotated("-3")),
				queued("c", "n3", 0, annotated("7"))},
			admit: "c", order: []string{"a", "b"}, recheck: 15 * time.Minute,
		},
		"by the first rule that fits": {
			config: `{"rules":[{"schedule":"hourly","labels":{"tier":"gold"},"priority":9},{"schedule":"hourly","priority":5},{"labels":{"tier":"gold"},"priority":3}]}`,
			queued: []qav1.Backup{
				queued("plain", "n1", 0), queued("gold", "n2", 0, labelled("tier", "gold")),
				queued("hourly", "n3", 0, labelled(velerov1.ScheduleNameLabel, "hourly")),
				queued("both", "n4", 0, labelled(velerov1.ScheduleNameLabel, "hourly"), labelled("tier", "gold")),
				queued("silver", "n5", 0, labelled("tier", "silver"), annotated("4")),
			},
			admit: "both", order: []string{"hourly", "silver", "gold", "plain"}, recheck: 15 * time.Minute,
		},
		"an annotation wins over a rule": {
			config: `{"rules":[{"labels":{"tier":"gold"},"priority":3}]}`,
			queued: []qav1.Backup{queued("a", "n1", 0, labelled("tier", "gold"), annotated("-1")), queued("b", "n2", 0)},
			admit:  "b", order: []string{"a"},
		},
		"an annotation that is not a number": {
			queued: []qav1.Backup{queued("a", "n1", 0), queued("b", "n2", 0, annotated("high\n"))},
			admit:  "a", order: []string{"b"},
			waits: map[string]string{"b": "the limit of 1 running backup is reached; its priority is 0 " +
				`(annotation cleat.dev/priority is "high\n", want a whole number from -1000 to 1000)`},
		},
		"who waits long comes first in the end": {
			config: `{"age":"1h"}`,
			queued: []qav1.Backup{
				queued("new", "n1", time.Minute, annotated("5")), queued("old", "n2", 5*time.Hour+50*time.Minute), queued("older",
					"n3", 6*time.Hour),
			},
			admit: "older", order: []string{"new", "old"}, recheck: 10 * time.Minute,
			waits: map[string]string{
				"old": "the limit of 1 running backup is reached; its priority is 0, and 5 for waiting",
				"new": "the limit of 1 running backup is reached; its priority is 5",
			},
		},
		"an overlap in the new order": {
			queued: []qav1.Backup{queued("a", "n1", 0), queued("b", "n1", 0, annotated("1"))}, admit: "b", order: []string{"a"},
			waits: map[string]string{"a": "shares namespace n1 with b, which runs; its priority is 0"},
		},
		"a clock that went back": {
			queued: []qav1.Backup{queued("a", "n1", -time.Hour), queued("b", "n2", 0)}, admit: "a", order: []string{"b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := plugintest.Run(t, priority.Register()).QueueAdmissionV1(priority.Name, configured(test.config))
			decision, err := policy.Decide(t.Context(), &qav1.DecideInput{Now: now, Limit: 1, Queued: test.queued})
			require.NoError(t, err)
			require.Equal(t, []string{test.admit}, decision.Admit)
			require.Equal(t, test.order, decision.Order)
			require.Equal(t, test.recheck, decision.RecheckAfter)
			for _, wait := range decision.Waits {
				if want, ok := test.waits[wait.Name]; ok {
					require.Equal(t, want, wait.Message)
				}
			}
		})
	}
}

func TestInvalidConfigIsRefused(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, priority.Register())
	for config, want := range map[string]string{
		`{"age":"0.5s"}`:   "age: it is 500ms, want at least 1s",
		`{"age":"soon"}`:   `"soon" does not match`,
		`{"rule":[]}`:      `unknown key "rule"`,
		`{"rules":"many"}`: `key "rules": want a list, got string`,
	} {
		policy := plugin.QueueAdmissionV1(priority.Name, configured(config))
		_, err := policy.Decide(t.Context(),
			&qav1.DecideInput{Now: now, Limit: 1, Queued: []qav1.Backup{queued("a", "n1", 0)}})
		require.ErrorContains(t, err, want)
	}
}

// The backup of the lowest priority starts in the end, even if a backup of the highest priority and the same namespace
// arrives whenever a slot becomes free: as soon as it has waited for as many intervals as their priorities differ.
func TestNoBackupStarves(t *testing.T) {
	t.Parallel()
	policy := plugintest.Run(t, priority.Register()).QueueAdmissionV1(priority.Name, configured(`{"age":"1m"}`))
	const step, intervals = 10, 2000
	waiting := []qav1.Backup{queued("least", "n1", 0, annotated("-1000")), queued("urgent", "n1", 0, annotated("1000"))}
	for minutes := 0; ; minutes += step {
		require.LessOrEqual(t, minutes, intervals+step, "it waits for ever")
		snapshot := &qav1.DecideInput{Now: now.Add(time.Duration(minutes) * time.Minute), Limit: 1, Queued: waiting}
		decision, err := policy.Decide(t.Context(), snapshot)
		require.NoError(t, err)
		require.Len(t, decision.Admit, 1)
		if decision.Admit[0] == "least" {
			require.GreaterOrEqual(t, minutes, intervals-step, "importance counts until then")
			return
		}
		next := queued("urgent", "n1", 0, annotated("1000"))
		next.Created = snapshot.Now
		waiting = []qav1.Backup{waiting[0], next}
	}
}
