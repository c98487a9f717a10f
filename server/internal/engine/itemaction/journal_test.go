package itemaction_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/versioning"
)

func TestOperationsAreInTheJournalAsSoonAsTheyCanBe(t *testing.T) {
	t.Parallel()
	web := framework.ResourceIdentifier{Resource: "pods", Namespace: "shop", Name: "web"}
	db := framework.ResourceIdentifier{Resource: "pods", Namespace: "shop", Name: "db"}
	sent := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web","labels":{"a":"b"}},"spec":{}}`)
	start := operation.Start{Action: "a.io/copy", Item: web,
		Sent: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}`)}
	known := operation.Recorded{Start: start, ID: "op-1", Keyed: true}
	doubt := operation.Recorded{Start: start, Keyed: true}
	unkeyed := operation.Recorded{Start: start, ID: "op-1"}
	disk := errors.New("disk full")
	lost := versioning.NewPlugin("AsyncBackupItemAction", "a.io/copy").Wrap(status.Error(codes.Unavailable, "died"))
	for name, test := range map[string]struct {
		starts  versioning.Starts
		before  []operation.Operation // ended; nil if the run is not over
		id      string
		err     error
		during  []operation.Recorded // the records for the next server
		after   []operation.Recorded
		failure string
	}{
		"keyed":          {versioning.Keyed, nil, "op-1", nil, []operation.Recorded{doubt}, []operation.Recorded{known}, ""},
		"keyed, nothing": {versioning.Keyed, nil, "", nil, []operation.Recorded{doubt}, nil, ""},
		"keyed, refused": {versioning.Keyed, nil, "", disk, []operation.Recorded{doubt}, nil, "disk full"},
		"keyed, lost":    {versioning.Keyed, nil, "", lost, []operation.Recorded{doubt}, []operation.Recorded{doubt}, "died"},
		"keyed, of another": {versioning.Keyed, nil, "taken", nil, []operation.Recorded{doubt}, nil,
			"which it has started for pods/shop/db"},
		"keyed, late": {versioning.Keyed, []operation.Operation{}, "op-1", nil, []operation.Recorded{doubt},
			[]operation.Recorded{known}, "have ended"},
		"unkeyed":          {versioning.Unkeyed, nil, "op-1", nil, nil, []operation.Recorded{unkeyed}, ""},
		"unkeyed, nothing": {versioning.Unkeyed, nil, "", nil, nil, nil, ""},
		"unkeyed, refused": {versioning.Unkeyed, nil, "", disk, nil, nil, "disk full"},
		"unkeyed, late": {versioning.Unkeyed, []operation.Operation{}, "op-1", nil, nil, []operation.Recorded{unkeyed},
			"have ended"},
		"unkeyed, not so late": {versioning.Unkeyed, []operation.Operation{{Action: "a.io/copy", ID: "op-1", Item: web}},
			"op-1", nil, nil, []operation.Recorded{unkeyed}, ""},
		"none": {versioning.NoOperations, nil, "", nil, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewFakeClient()
			journals := operation.NewJournals(api, api, "velero", signing.Fixed(signing.NewKey([]byte("of tests"))),
				hclog.NewNullLogger())
			found := func() []operation.Recorded {
				journal, err := journals.Load(t.Context(), "u-1")
				require.NoError(t, err)
				all := journal.Starts()
				for i := range all {
					require.False(t, all[i].Began.IsZero())
					all[i].Began = time.Time{}
				}
				return all
			}
			journal := journals.New(&operation.Owner{Kind: operation.OfBackup, Namespace: "velero", Name: "nightly", UID: "u-1",
				JSON: []byte(`{}`)})
			operations := itemaction.NewOperations(journal, nil, time.Now)
			nothing := func() (string, []framework.ResourceIdentifier, error) { return "taken", nil, nil }
			if test.id == "taken" {
				require.NoError(t, operations.Call(t.Context(), starter(versioning.NoOperations), db, sent, nothing))
			}
			if test.before != nil {
				operations.EndedWith(test.before)
			}
			// The run may end during the call.
			ctx, cancel := context.WithCancel(t.Context())
			err := operations.Call(ctx, starter(test.starts), web, sent, func() (string, []framework.ResourceIdentifier, error) {
				if test.id != "taken" {
					require.Equal(t, test.during, found())
				}
				cancel()
				return test.id, nil, test.err
			})
			if test.failure == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.failure)
			}
			if test.starts == versioning.Keyed {
				require.NoError(t, journal.Flush(t.Context()))
			}
			var left []operation.Recorded
			for _, recorded := range found() {
				if recorded.Item == web {
					left = append(left, recorded)
				}
			}
			require.Equal(t, test.after, left)
		})
	}
}

// idle are the actions of a monitor that does not run.
type idle struct{ operation.Plugins }

func (idle) Declared(*operation.Owner, string) operation.Limits { return operation.Limits{} }

func TestOperationsAreFollowedOnceTheyAreKnown(t *testing.T) {
	t.Parallel()
	web := framework.ResourceIdentifier{Resource: "pods", Namespace: "shop", Name: "web"}
	sent := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}`)
	owner := &operation.Owner{Kind: operation.OfBackup, Namespace: "velero", Name: "nightly", UID: "u-1",
		JSON: []byte(`{}`)}
	for name, starts := range map[string]versioning.Starts{"unkeyed": versioning.Unkeyed, "keyed": versioning.Keyed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewFakeClient()
			journal := operation.NewJournals(api, api, "velero", signing.Fixed(signing.NewKey([]byte("of tests"))),
				hclog.NewNullLogger()).New(owner)
			monitor, err := operation.NewMonitor(idle{}, operation.Options{Log: hclog.NewNullLogger()})
			require.NoError(t, err)
			call := func(group *operation.Group, now time.Time) []operation.Operation {
				operations := itemaction.NewOperations(journal, group, func() time.Time { return now })
				require.NoError(t, operations.Call(t.Context(), starter(starts), web, sent,
					func() (string, []framework.ResourceIdentifier, error) {
						require.Zero(t, group.Counts())
						return "op-1", nil, nil
					}))
				require.Equal(t, operation.Counts{Attempted: 1}, group.Counts(), "before the run has ended")
				return operations.Complete()
			}
			first := call(monitor.Begin(owner, nil, 0), time.Now())
			require.Len(t, first, 1)
			again := call(monitor.Begin(owner, nil, 0), time.Now().Add(time.Hour))
			if starts == versioning.Keyed {
				require.WithinDuration(t, first[0].Created, again[0].Created, time.Minute,
					"it is the operation of the former attempt")
			} else {
				require.WithinDuration(t, first[0].Created.Add(time.Hour), again[0].Created, time.Minute)
			}
		})
	}
}
