package backupqueue

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

func TestStandingBackupsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	q := &Controller{Log: hclog.New(&hclog.LoggerOptions{Output: &log})}
	var line queue.Line
	for i := range 60 {
		b := controllertest.NewBackup(fmt.Sprintf("b%02d", i))
		placement := queue.Placement{Backup: b, Position: i + 1, Wait: velerov1.QueueWait{Reason: "NamespaceOverlap",
			Blockers: []string{"first"}}}
		require.NoError(t, placement.Apply(b))
		line.Queued = append(line.Queued, b)
	}
	moves := queue.Placement{Backup: line.Queued[1], Position: 1, Wait: velerov1.QueueWait{Reason: "NamespaceOverlap",
		Blockers: []string{"first"}}}
	changes := queue.Placement{Backup: line.Queued[2], Position: 2, Wait: velerov1.QueueWait{Reason: "NamespaceOverlap",
		Blockers: []string{"second"}}}
	for range 2 {
		q.logStanding(line, queue.Plan{Admit: line.Queued[:1], Place: []queue.Placement{moves, changes}})
	}
	require.Equal(t, maxStanding, strings.Count(log.String(), "backup waits: "))
	require.Contains(t, log.String(), "more backups wait: backups=8")
	require.NotContains(t, log.String(), "b00", "it is admitted")
	require.Contains(t, log.String(), "b01")
	require.NotContains(t, log.String(), "b02", "its new reason is logged when it is written")
}
