package walk_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/internal/walk"
)

func named(name string, namespaces ...string) qav1.Backup {
	return qav1.Backup{Name: name, Namespaces: namespaces, Spec: []byte("{}")}
}

// all returns a backup of all namespaces of a cluster with the namespaces a, b and c, except the excluded ones.
func all(t *testing.T, name string, excluded ...string) qav1.Backup {
	t.Helper()
	spec, err := json.Marshal(velerov1.BackupSpec{ExcludedNamespaces: excluded})
	require.NoError(t, err)
	return qav1.Backup{Name: name, AllNamespaces: true, Namespaces: []string{"a", "b", "c"}, Spec: spec}
}

func decide(snapshot *qav1.DecideInput) *qav1.DecideOutput {
	return walk.Decide(snapshot, walk.Queue(snapshot), walk.Rule{})
}

func TestBackupStartsUnlessItOverlapsOneAhead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limit                  int
		running, ready, queued []qav1.Backup
		admit                  []string
		waits                  []string
	}{
		"an empty cluster": {
			limit: 1, queued: []qav1.Backup{named("x", "a")}, admit: []string{"x"},
		},
		"the limit": {
			limit: 2, running: []qav1.Backup{named("r", "a")},
			queued: []qav1.Backup{named("x", "b"), named("y", "c")},
			admit:  []string{"x"},
			waits:  []string{"y Limit [] []: the limit of 2 running backups is reached"},
		},
		"a limit of one": {
			limit: 1, queued: []qav1.Backup{named("x", "b"), named("y", "c")}, admit: []string{"x"},
			waits: []string{"y Limit [] []: the limit of 1 running backup is reached"},
		},
		"more than the limit run": {
			limit: 1, running: []qav1.Backup{named("r", "a"), named("s", "b")}, queued: []qav1.Backup{named("x", "c")},
			waits: []string{"x Limit [] []: the limit of 1 running backup is reached"},
		},
		"the example of the requirement": {
			limit: 2, running: []qav1.Backup{named("backup1", "ns1", "ns2")},
			queued: []qav1.Backup{
				named("backup2", "ns2", "ns3", "ns5"), named("backup3", "ns3", "ns4"),
				named("backup4", "ns5", "ns6"), named("backup5", "ns8", "ns9"),
			},
			admit: []string{"backup5"},
			waits: []string{
				"backup2 NamespaceOverlap [backup1] [ns2]: shares namespace ns2 with backup1, which runs",
				"backup3 NamespaceOverlap [backup2] [ns3]: shares namespace ns3 with backup2, which is ahead of it in the queue",
				"backup4 NamespaceOverlap [backup2] [ns5]: shares namespace ns5 with backup2, which is ahead of it in the queue",
			},
		},
		"one that is ready": {
			limit: 9, ready: []qav1.Backup{named("r", "a", "b")}, queued: []qav1.Backup{named("x", "a", "b")},
			waits: []string{"x NamespaceOverlap [r] [a b]: shares namespaces a, b with r, which runs"},
		},
		"one that is admitted in the same decision": {
			limit: 9, queued: []qav1.Backup{named("x", "a"), named("y", "a")}, admit: []string{"x"},
			waits: []string{"y NamespaceOverlap [x] [a]: shares namespace a with x, which runs"},
		},
		"several": {
			limit: 9, running: []qav1.Backup{named("r", "b"), named("s", "a")}, queued: []qav1.Backup{named("x", "a", "b")},
			waits: []string{"x NamespaceOverlap [s] [a]: shares namespace a with s, which runs"},
		},
		"one of all namespaces runs": {
			limit: 9, running: []qav1.Backup{all(t, "r")}, queued: []qav1.Backup{named("x", "a"), named("y", "future"),
				named("z")},
			waits: []string{
				"x NamespaceOverlap [r] [a]: r, which runs, takes all namespaces",
				"y NamespaceOverlap [r] [future]: r, which runs, takes all namespaces",
				"z NamespaceOverlap [r] []: r, which runs, takes all namespaces",
			},
		},
		"one of all namespaces waits, and is not overtaken": {
			limit: 9, running: []qav1.Backup{named("r", "a")}, queued: []qav1.Backup{all(t, "x"), named("y", "c")},
			waits: []string{
				"x NamespaceOverlap [r] []: takes all namespaces, and r runs",
				"y NamespaceOverlap [x] [c]: x, which is ahead of it in the queue, takes all namespaces",
			},
		},
		"two of all namespaces": {
			limit: 9, running: []qav1.Backup{all(t, "r")}, queued: []qav1.Backup{all(t, "x")},
			waits: []string{"x NamespaceOverlap [r] []: takes all namespaces, and r runs"},
		},
		"all but the one that runs": {
			limit: 9, running: []qav1.Backup{named("r", "a")}, queued: []qav1.Backup{all(t, "x", "a")}, admit: []string{"x"},
		},
		"all but those of a pattern, some of which do not exist yet": {
			limit: 9, running: []qav1.Backup{all(t, "r", "team-*")}, queued: []qav1.Backup{named("x", "team-1"),
				named("y", "team-2", "c")},
			admit: []string{"x"},
			waits: []string{"y NamespaceOverlap [r] [c]: r, which runs, takes all namespaces"},
		},
		"only what belongs to no namespace": {
			limit: 9, running: []qav1.Backup{named("r")}, queued: []qav1.Backup{named("x"), all(t, "y", "a", "b", "c")},
			admit: []string{"x"},
			waits: []string{"y NamespaceOverlap [x] []: takes all namespaces, and x runs"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshot := &qav1.DecideInput{Limit: test.limit, Running: test.running, Ready: test.ready, Queued: test.queued}
			decision := decide(snapshot)
			require.Equal(t, test.admit, decision.Admit)
			var waits, order []string
			for _, wait := range decision.Waits {
				waits = append(waits, fmt.Sprintf("%s %s %v %v: %s", wait.Name, wait.Reason, wait.Blockers, wait.Namespaces,
					wait.Message))
				order = append(order, wait.Name)
			}
			require.Equal(t, test.waits, waits)
			require.Equal(t, order, decision.Order)
		})
	}
}

// TestIndexedWalkDecidesLikePairwiseComparison checks the indexes against the definition.
func TestIndexedWalkDecidesLikePairwiseComparison(t *testing.T) {
	t.Parallel()
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	for round := range 2000 {
		snapshot := randomSnapshot(t, random)
		decision := decide(snapshot)
		require.Equal(t, admittedByDefinition(t, snapshot), decision.Admit, "round %d", round)
		require.Equal(t, decision, decide(snapshot), "the same snapshot has the same decision")
	}
}

func randomSnapshot(t *testing.T, random *rand.Rand) *qav1.DecideInput {
	t.Helper()
	count := 0
	backups := func(most int) []qav1.Backup {
		var some []qav1.Backup
		for range random.IntN(most + 1) {
			count++
			name := fmt.Sprintf("b%d", count)
			var namespaces []string
			for _, namespace := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				if random.IntN(8) == 0 {
					namespaces = append(namespaces, namespace)
				}
			}
			if random.IntN(12) == 0 {
				some = append(some, all(t, name, namespaces...))
				continue
			}
			some = append(some, named(name, namespaces...))
		}
		return some
	}
	return &qav1.DecideInput{Limit: 1 + random.IntN(20), Running: backups(3), Ready: backups(2), Queued: backups(30)}
}

func admittedByDefinition(t *testing.T, snapshot *qav1.DecideInput) []string {
	t.Helper()
	var admitted []string
	ahead := slices.Concat(snapshot.Running, snapshot.Ready)
	for _, backup := range snapshot.Queued {
		free := len(admitted) < snapshot.Free()
		for i := range ahead {
			free = free && !overlapByDefinition(t, &backup, &ahead[i])
		}
		if free {
			admitted = append(admitted, backup.Name)
		}
		ahead = append(ahead, backup)
	}
	return admitted
}

func overlapByDefinition(t *testing.T, a, b *qav1.Backup) bool {
	t.Helper()
	if a.AllNamespaces && b.AllNamespaces {
		return true
	}
	if b.AllNamespaces {
		a, b = b, a
	}
	if a.AllNamespaces {
		spec, err := a.DecodeSpec()
		require.NoError(t, err)
		return len(b.Namespaces) == 0 ||
			slices.ContainsFunc(b.Namespaces, func(n string) bool { return !slices.Contains(spec.ExcludedNamespaces, n) })
	}
	return slices.ContainsFunc(a.Namespaces, func(n string) bool { return slices.Contains(b.Namespaces, n) })
}

func TestOnlyNearestBlockerIsNamed(t *testing.T) {
	t.Parallel()
	snapshot := &qav1.DecideInput{Limit: 1}
	for i := range 3000 {
		snapshot.Queued = append(snapshot.Queued, named(fmt.Sprintf("b%d", i), "a"))
	}
	decision := decide(snapshot)
	require.Equal(t, []string{"b0"}, decision.Admit)
	last := decision.Waits[len(decision.Waits)-1]
	require.Equal(t, []string{"b2998"}, last.Blockers)
	require.Equal(t, "shares namespace a with b2998, which is ahead of it in the queue", last.Message)

	snapshot.Running, snapshot.Queued = snapshot.Queued[:1], snapshot.Queued[1:]
	later := decide(snapshot)
	require.Equal(t, decision.Waits[1:], later.Waits[1:], "the start of a backup far ahead changes no reason")
}
