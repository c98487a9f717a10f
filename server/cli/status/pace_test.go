package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

// TestPaces looks at an amount again and again.
func TestPaces(t *testing.T) {
	t.Parallel()
	const second = time.Second
	type at struct {
		after time.Duration // since the beginning
		done  int64
	}
	for name, row := range map[string]struct {
		looks  []at
		forget bool // nothing is remembered
		began  time.Duration
		want   pace
	}{
		"nothing yet":         {looks: []at{{second, 0}}},
		"since the beginning": {looks: []at{{10 * second, 50}}, want: pace{5, true}},
		"between two looks":   {looks: []at{{10 * second, 50}, {12 * second, 90}}, want: pace{20, true}},
		"without memory": {looks: []at{{10 * second, 50}, {12 * second, 96}}, forget: true,
			want: pace{8, true}},
		"looks at the same moment": {looks: []at{{10 * second, 50}, {10*second + 100, 60}}, want: pace{6, true}},
		"the same twice": {looks: []at{{10 * second, 50}, {12 * second, 90}, {13 * second, 90}},
			want: pace{20, true}},
		"it stands still": {looks: []at{{10 * second, 50}, {12 * second, 90}, {20 * second, 90}},
			want: pace{4, true}},
		"it began anew": {looks: []at{{10 * second, 50}, {12 * second, 90}, {16 * second, 32}},
			want: pace{2, true}},
		"it begins later than the clock": {looks: []at{{0, 50}}, began: time.Minute},
	} {
		var p *Paces
		if !row.forget {
			p = &Paces{}
		}
		var got pace
		for _, look := range row.looks {
			got = p.of("key", look.done, statustest.At(row.began), statustest.Noon().Add(look.after))
		}
		require.InDelta(t, row.want.perSecond, got.perSecond, 0.001, name)
		require.Equal(t, row.want.known, got.known, name)
	}
	p := &Paces{}
	p.of("old", 1, nil, statustest.Noon())
	p.of("new", 1, nil, statustest.Noon().Add(time.Hour))
	require.NotContains(t, p.known, "old")
}

// TestLoadsAndRunsHavePaces has those at work, and others.
func TestLoadsAndRunsHavePaces(t *testing.T) {
	t.Parallel()
	progress := velerov1.LoadProgress{BytesDone: 30 << 20, TotalBytes: 90 << 20}
	now := statustest.Noon()
	pods, movements := WithPaces([]PodVolume{
		{Volume: "moves", Pod: "shop/db-0", Phase: velerov1.LoadPhaseInProgress, Progress: progress,
			Started: statustest.At(-10 * time.Second)},
		{Volume: "unknown", Phase: velerov1.LoadPhaseInProgress, Progress: progress},
		{Volume: "ended", Phase: velerov1.LoadPhaseCompleted, Progress: progress, Started: statustest.At(-time.Minute)},
	}, []Movement{{Namespace: "shop", Claim: "data", Phase: velerov1.LoadPhaseInProgress,
		Progress: velerov1.LoadProgress{BytesDone: 10 << 20}, Started: statustest.At(-10 * time.Second),
		Message: "attempt 1 of 3 has ended"}}, nil, now)
	require.Equal(t, "moves (33.33%; 3.0 MiB/s, 20s left)", pods[0].text())
	require.Equal(t, "unknown (33.33%)", pods[1].text())
	require.Nil(t, pods[2].Pace)
	table := LoadTable(pods, movements)
	require.Equal(t, []string{"moves", "shop/db-0", "InProgress", "30.0 MiB of 90.0 MiB", "3.0 MiB/s", "20s", "velero",
		""}, table.Rows[0])
	require.Equal(t, []string{"data", "shop", "InProgress", "10.0 MiB", "1.0 MiB/s", "-", "velero",
		"attempt 1 of 3 has ended"}, table.Rows[3])

	run := Run{Phase: "InProgress", Done: 500, Total: 2000}
	require.Equal(t, "50/s, 30s left", run.Pace(nil, "", statustest.At(-10*time.Second), now))
	require.Empty(t, run.Pace(nil, "", nil, now))
	run.Phase = "Completed"
	require.Empty(t, run.Pace(nil, "", statustest.At(-10*time.Second), now))
}
