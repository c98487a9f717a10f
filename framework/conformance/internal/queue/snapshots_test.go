package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

func TestSnapshotIsReadFromYAML(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(`
now: 2026-03-02T12:00:00Z
limit: 3
running: [{name: shop-1, namespaces: [shop], labels: {team: gold}, created: 2026-03-02T11:00:00Z}]
queued: [{name: shop-2, namespaces: [shop], clusterScope: CLUSTER_SCOPE_NONE, spec: {ttl: 720h}}, {name: all, allNamespaces: true}]
`))
	require.NoError(t, err)
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	require.Equal(t, now, got.GetNow().AsTime())
	require.EqualValues(t, 3, got.GetLimit())
	require.Equal(t, map[string]string{"team": "gold"}, got.GetRunning()[0].GetLabels())
	require.True(t, got.GetRunning()[0].GetStarted().AsTime().After(now.Add(-time.Hour)), "it is made up")
	require.JSONEq(t, `{"ttl":"720h"}`, string(got.GetQueued()[0].GetSpec()))
	require.Equal(t, queueadmissionv1.ClusterScope_CLUSTER_SCOPE_NONE, got.GetQueued()[0].GetClusterScope())
	require.Equal(t, now.Add(-time.Minute), got.GetQueued()[1].GetCreated().AsTime())
	require.JSONEq(t, `{}`, string(got.GetQueued()[1].GetSpec()))
}

func TestSnapshotIsReadFromBackups(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(`
apiVersion: v1
kind: List
items:
- {kind: Backup, metadata: {name: a}, spec: {includedNamespaces: [x, b]}, status: {phase: InProgress, startTimestamp: "2026-03-02T12:00:00Z"}}
- {kind: Backup, metadata: {name: b}, status: {phase: ReadyToStart}}
- {kind: Backup, metadata: {name: c, labels: {team: gold}, creationTimestamp: "2026-03-02T12:00:00Z"}, spec: {includedNamespaces: ["*"]}}
- {kind: Backup, metadata: {name: d}, status: {phase: Completed}}
`))
	require.NoError(t, err)
	require.EqualValues(t, 3, got.GetLimit())
	require.Equal(t, []string{"b", "x"}, got.GetRunning()[0].GetNamespaces())
	require.Equal(t, "b", got.GetReady()[0].GetName())
	require.Len(t, got.GetQueued(), 1)
	require.True(t, got.GetQueued()[0].GetAllNamespaces())
	require.Equal(t, time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), got.GetQueued()[0].GetCreated().AsTime())
}

func TestSnapshotMayHaveOperationsAndRestores(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(`
now: 2026-03-02T12:00:00Z
limit: 1
operating: [{name: shop-1, namespaces: [shop, bank], spec: {ttl: 720h}}]
restoring: [{name: restores/shop, allNamespaces: true}]
queued: [{name: shop-2}]
`))
	require.NoError(t, err)
	require.Equal(t, []string{"bank", "shop"}, got.GetOperating()[0].GetNamespaces(), "namespaces are sorted on the wire")
	require.JSONEq(t, `{"ttl":"720h"}`, string(got.GetOperating()[0].GetSpec()))
	require.NotNil(t, got.GetRestoring()[0].GetStarted())
	later := Moved(got, time.Hour)
	for _, moved := range [][2]*queueadmissionv1.Backup{
		{got.GetOperating()[0], later.GetOperating()[0]}, {got.GetRestoring()[0], later.GetRestoring()[0]},
	} {
		require.Equal(t, moved[0].GetStarted().AsTime().Add(time.Hour), moved[1].GetStarted().AsTime())
	}

	_, err = Parse([]byte("{limit: 1, operating: [{name: a}], queued: [{name: a}]}"))
	require.ErrorContains(t, err, "want a name that no other backup has")
}

func TestSnapshotNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[]":                                    "cannot unmarshal array",
		"{queued: [{name: a}]}":                 "limit: want a number of backups, at least 1",
		"{limit: 1}":                            "queued: want one backup at least",
		"{limit: 1, queued: [{}]}":              `queued[0].name: want a name that no other backup has, not ""`,
		"{limit: 1, config: {}}":                "config: it is not part of a snapshot",
		"{limit: 1, queue: []}":                 `unknown field "queue"`,
		"{limit: 1, queued: [{spec: 3}]}":       "queued[0].spec: want an object, not 3",
		"{kind: PodList, items: [{kind: Pod}]}": `items[0].kind: want Backup, not "Pod"`,
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func TestBuiltInSnapshotsDifferInMomentsLabelsAndTeams(t *testing.T) {
	t.Parallel()
	days, hoursOfDay, teams, bare := map[time.Weekday]bool{}, map[int]bool{}, map[string]bool{}, 0
	operating, restoring := 0, 0
	for _, snapshot := range Snapshots("example.io/a", nil, nil) {
		days[snapshot.GetNow().AsTime().Weekday()] = true
		operating, restoring = operating+len(snapshot.GetOperating()), restoring+len(snapshot.GetRestoring())
		hoursOfDay[snapshot.GetNow().AsTime().Hour()/6] = true
		for _, queued := range snapshot.GetQueued() {
			teams[queued.GetLabels()["team"]] = true
			if queued.GetLabels() == nil {
				bare++
			}
		}
	}
	require.GreaterOrEqual(t, len(days), 5)
	require.Len(t, hoursOfDay, 4)
	require.Len(t, teams, 4)
	require.Positive(t, bare)
	require.Positive(t, operating)
	require.Positive(t, restoring)
}
