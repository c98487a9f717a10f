package operationreport_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/report/operationreport"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func owner(kind, name string) *operation.Owner {
	return &operation.Owner{Kind: kind, Namespace: "velero", Name: name, UID: types.UID(kind + name)}
}

func copying(id string, phase operation.Phase) operation.Operation {
	return operation.Operation{
		Action: "a.io/copy", ID: id, Item: framework.ResourceIdentifier{Group: "apps", Resource: "deployments",
			Namespace: "shop", Name: id},
		Created: time.Unix(10, 0), Status: operation.Status{
			Phase: phase, NCompleted: 5, NTotal: 10, Units: "bytes", Description: "d", Started: time.Unix(11, 0),
			Updated: time.Unix(12, 0),
		},
	}
}

// noPlugins are not called, because the monitor does not run.
type noPlugins struct{ operation.Plugins }

func (noPlugins) Declared(*operation.Owner, string) operation.Limits { return operation.Limits{} }

func TestOfMonitor(t *testing.T) {
	t.Parallel()
	m, err := operation.NewMonitor(noPlugins{}, operation.Options{Log: hclog.NewNullLogger()}) // it does not run
	require.NoError(t, err)
	now := time.Unix(60, 0)
	require.Equal(t, &serverreport.Operations{Time: now}, operationreport.OfMonitor(m, nil, now))
	m.Follow(owner(operation.OfRestore, "r"), []operation.Operation{copying("r-1", operation.New)}, 0)
	g := m.Follow(owner(operation.OfBackup, "b"), []operation.Operation{copying("1", operation.Completed),
		copying("2", operation.InProgress)}, 0)
	g.Cancel(errors.New("on request"))

	all := operationreport.OfMonitor(m, nil, now)
	require.Equal(t, serverreport.Summary{Open: 2, Completed: 1,
		Amounts: []serverreport.Amount{{Units: "bytes", Done: 15, Total: 30}}}, all.Summary)
	require.Len(t, all.Owners, 2)
	require.Equal(t, []string{"b", "r"}, []string{all.Owners[0].Name, all.Owners[1].Name})
	require.Equal(t, serverreport.Operation{
		Plugin: "a.io/copy", ID: "2", Resource: "deployments.apps", Namespace: "shop", Name: "2", Phase: "InProgress",
		Done: 5, Total: 10, Units: "bytes",
		Description: "d", Created: time.Unix(10, 0), Started: time.Unix(11, 0), Updated: time.Unix(12, 0),
		Cancelled: "on request",
	}, all.Owners[0].Operations[0], "open ones are first")
	require.Equal(t, "1", all.Owners[0].Operations[1].ID)

	one := operationreport.OfMonitor(m, []string{"restore/r"}, now)
	require.Len(t, one.Owners, 1)
	require.Equal(t, "Restore", one.Owners[0].Kind)
	require.Equal(t, 1, one.Attempted())
}

func TestOfFile(t *testing.T) {
	t.Parallel()
	b := owner(operation.OfBackup, "b")
	odd := copying("odd", operation.New)
	odd.Created = time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)) // the year -1 in UTC
	file := operation.NewFile(b, []operation.Operation{copying("1", operation.Failed), odd,
		{Action: "a.io/copy", Status: operation.Status{Phase: operation.New}}})
	of := operationreport.OfFile(b, file)
	require.Len(t, of.Operations, 2)
	require.Contains(t, of.Problem, "has no operationID")
	require.Empty(t, of.Operations[0].LastLines)
	failed := copying("failed", operation.Failed)
	failed.LastLines = "disk full"
	of = operationreport.OfFile(b, operation.NewFile(b, []operation.Operation{failed}))
	require.Equal(t, "disk full", of.Operations[0].LastLines)
	_, err := json.Marshal(of)
	require.NoError(t, err)
}
