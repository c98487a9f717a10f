package backupqueue

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// TestAcceptQueue_Scenario follows five backups with limit 2, step by step.
func TestAcceptQueue_Scenario(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 2)
	s.Add(t, controllertest.NewBackup("backup1", of("ns1", "ns2"), controllertest.InPhase(velerov1.BackupPhaseInProgress)))
	s.Add(t, controllertest.NewBackup("backup2", of("ns2", "ns3", "ns5")))
	s.start()
	s.shows("backup1 InProgress", "backup2 Queued 1")
	s.Add(t, controllertest.NewBackup("backup3", of("ns4", "ns3")))
	s.shows("backup1 InProgress", "backup2 Queued 1", "backup3 Queued 2")
	s.Add(t, controllertest.NewBackup("backup4", of("ns5", "ns6")))
	s.shows("backup1 InProgress", "backup2 Queued 1", "backup3 Queued 2", "backup4 Queued 3")
	require.Equal(t, "NamespaceOverlap: shares namespace ns2 with backup1, which runs", s.says("backup2"))
	require.Equal(t, "NamespaceOverlap: shares namespace ns3 with backup2, which is ahead of it in the queue",
		s.says("backup3"))
	require.Equal(t, "NamespaceOverlap: shares namespace ns5 with backup2, which is ahead of it in the queue",
		s.says("backup4"))

	s.Add(t, controllertest.NewBackup("backup5", of("ns8", "ns9")))
	s.shows("backup1 InProgress", "backup2 Queued 1", "backup3 Queued 2", "backup4 Queued 3", "backup5 ReadyToStart")
	require.Empty(t, s.says("backup5"))
	s.move("backup5", velerov1.BackupPhaseInProgress)

	s.move("backup1", velerov1.BackupPhaseWaitingForPluginOperations)
	s.shows("backup1 WaitingForPluginOperations", "backup2 ReadyToStart", "backup3 Queued 1", "backup4 Queued 2",
		"backup5 InProgress")
	require.Equal(t, "NamespaceOverlap: shares namespace ns3 with backup2, which runs", s.says("backup3"))

	s.move("backup2", velerov1.BackupPhaseInProgress)
	s.move("backup5", velerov1.BackupPhaseFailed)
	s.shows("backup1 WaitingForPluginOperations", "backup2 InProgress", "backup3 Queued 1", "backup4 Queued 2",
		"backup5 Failed")

	s.move("backup2", velerov1.BackupPhaseFinalizing)
	s.shows("backup1 WaitingForPluginOperations", "backup2 Finalizing", "backup3 ReadyToStart", "backup4 ReadyToStart",
		"backup5 Failed")
}

// The reason in a Backup names the nearest blocker; all blockers are computed on request.
func TestBlockersAreComputedOnRequest(t *testing.T) {
	t.Parallel()
	s := newQueueSite(t, 2)
	s.Add(t, controllertest.NewBackup("0-runs", of("ns1"), controllertest.InPhase(velerov1.BackupPhaseInProgress)))
	s.Add(t, controllertest.NewBackup("1-waits", of("ns1", "ns2")), controllertest.NewBackup("2-other", of("ns3")))
	s.Add(t, controllertest.NewBackup("3-waits", of("ns2", "ns4")),
		controllertest.NewBackup("4-last", of("ns1", "ns2", "ns3", "ns4")))
	s.start()
	s.shows("0-runs InProgress", "1-waits Queued 1", "2-other ReadyToStart", "3-waits Queued 2", "4-last Queued 3")
	require.Equal(t, "NamespaceOverlap: shares namespaces ns2, ns4 with 3-waits, which is ahead of it in the queue",
		s.says("4-last"))
	for name, want := range map[string][]string{
		"4-last": {"0-runs", "2-other", "1-waits", "3-waits"}, "3-waits": {"1-waits"}, "1-waits": {"0-runs"},
	} {
		blockers, err := s.queue.Blockers(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, &serverreport.Blockers{Backup: name, Names: want}, blockers)
	}
	none, err := s.queue.Blockers(t.Context(), "0-runs")
	require.NoError(t, err)
	require.Nil(t, none)
}
