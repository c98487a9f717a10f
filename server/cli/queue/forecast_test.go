package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// TestForecast simulates 500 waiting backups until some have started, with the settings of the server and without.
func TestForecast(t *testing.T) {
	t.Parallel()
	f := &Forecaster{App: &command.App{}}
	of := Forecast{Policy: "cleat.dev/namespace-overlap", Limit: 2, Starts: 3}
	backup := func(name, namespace string, phase velerov1.BackupPhase, position int) *velerov1.Backup {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
			Spec:   velerov1.BackupSpec{IncludedNamespaces: []string{namespace}},
			Status: velerov1.BackupStatus{Phase: phase, QueuePosition: position}}
		of.Backups = append(of.Backups, b)
		return b
	}
	backup("runs", "shop", velerov1.BackupPhaseInProgress, 0)
	backup("done", "shop", velerov1.BackupPhaseCompleted, 0)
	for i := range 500 {
		backup(fmt.Sprintf("b-%03d", i), fmt.Sprintf("n-%d", i/2), velerov1.BackupPhaseQueued, i+1)
	}
	last := backup("last", "shop", velerov1.BackupPhaseQueued, 501)
	before := last.DeepCopy()
	began := time.Now()
	doc, err := f.Simulate(t.Context(), of)
	require.NoError(t, err)
	t.Logf("it took %s", time.Since(began).Round(time.Millisecond))
	require.Equal(t, []string{"b-000", "b-002", "b-001"}, doc.Order[:3])
	require.Less(t, len(doc.Rounds), 5)
	require.Equal(t, before, last, "the backups stay as they are")

	of.Backups, of.Until = of.Backups[:20], "b-017"
	doc, err = f.Simulate(t.Context(), of)
	require.NoError(t, err)
	require.Contains(t, doc.Order, "b-017", "it ends when that one has started")

	of.Policy, of.Until, of.Backups[9].Annotations = "cleat.dev/priority", "", map[string]string{"cleat.dev/priority": "9"}
	doc, err = f.Simulate(t.Context(), of)
	require.NoError(t, err)
	require.Equal(t, of.Backups[9].Name, doc.Order[0])
	file, err := config.Parse("cleat.yaml", []byte("apiVersion: cleat.dev/v1\nbackups: {admission: {plugin: "+
		"cleat.dev/priority, config: {rules: [{labels: {team: shop}, priority: 100}]}}}\n"))
	require.NoError(t, err)
	of.Backups[16].Labels = map[string]string{"team": "shop"}
	of.Settings = &file.Backups.Admission
	doc, err = f.Simulate(t.Context(), of)
	require.NoError(t, err)
	require.Equal(t, of.Backups[16].Name, doc.Order[0], "a rule of the server")

	of.Policy = "example.io/own"
	_, err = f.Simulate(t.Context(), of)
	require.ErrorContains(t, err, "policy example.io/own is a plugin of the server alone")
}
