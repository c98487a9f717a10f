package operations_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// site runs processes of the plugin testdata/mover on one state directory.
type site struct {
	t      *testing.T
	binary string
	state  string
}

func newSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, binary: programs.Build(t, "framework/operations/testdata/mover"), state: t.TempDir()}
}

// start starts a process with the given lease.
func (s *site) start(lease time.Duration) (*plugintest.Plugin, abiav1.AsyncBackupItemAction) {
	s.t.Helper()
	plugin := plugintest.Start(s.t, s.binary, "--log-level=debug", lease.String(), s.state)
	return plugin, plugin.AsyncBackupItemActionV1("example.io/mover")
}

// input returns the input that starts an operation on the named claim.
func (s *site) input(claim string) *abiav1.StartInput {
	return &abiav1.StartInput{
		Item: plugintest.Object(s.t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: `+
			claim+`}}`),
		Backup: plugintest.Backup("nightly"), Key: "nightly/" + claim,
	}
}

// release ends the work on a claim: with the error that how names, or successfully if it is empty.
func (s *site) release(claim, how string) {
	s.t.Helper()
	part := filepath.Join(s.state, claim+".part")
	require.NoError(s.t, os.WriteFile(part, []byte(how), 0o600))
	require.NoError(s.t, os.Rename(part, filepath.Join(s.state, claim)))
}

// begun returns how many times the work on a claim has begun.
func (s *site) begun(claim string) int {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.state, "begun"))
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(s.t, err)
	return strings.Count(string(content), claim+"\n")
}

// await polls the progress, as a host does, until it is as wanted.
func (s *site) await(
	action abiav1.AsyncBackupItemAction, id string, wanted func(framework.OperationProgress) bool,
) framework.OperationProgress {
	s.t.Helper()
	var progress framework.OperationProgress
	require.Eventually(s.t, func() bool {
		var err error
		progress, err = action.Progress(s.t.Context(),
			&abiav1.ProgressInput{OperationID: id, Backup: plugintest.Backup("nightly")})
		return err == nil && wanted(progress)
	}, 5*time.Minute, 20*time.Millisecond)
	return progress
}

func completed(progress framework.OperationProgress) bool { return progress.Completed }

func hasDescription(description string) func(framework.OperationProgress) bool {
	return func(progress framework.OperationProgress) bool { return progress.Description == description }
}

func TestOperationSurvivesKilledProcess(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second // which a busy machine renews in time
	s := newSite(t)
	first, action := s.start(lease)
	started, err := action.Start(t.Context(), s.input("data"))
	require.NoError(t, err)
	s.await(action, started.OperationID, hasDescription("shop/data, attempt 1"))
	first.Kill()

	_, action = s.start(lease)
	again, err := action.Start(t.Context(), s.input("data"))
	require.NoError(t, err)
	require.Equal(t, started.OperationID, again.OperationID)
	s.await(action, started.OperationID, hasDescription("shop/data, attempt 2"))
	s.release("data", "")
	require.Empty(t, s.await(action, started.OperationID, completed).Err)
	require.Equal(t, 2, s.begun("data"))
}

func TestConcurrentStartsStartOneOperation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, first := s.start(time.Hour)
	_, second := s.start(time.Hour)
	ids := make(chan string, 16)
	var calls sync.WaitGroup
	for i := range cap(ids) {
		calls.Go(func() {
			output, err := []abiav1.AsyncBackupItemAction{first, second}[i%2].Start(t.Context(), s.input("data"))
			if err != nil {
				t.Error(err)
				return
			}
			ids <- output.OperationID
		})
	}
	calls.Wait()
	close(ids)
	id := <-ids
	for other := range ids {
		require.Equal(t, id, other)
	}
	s.release("data", "disk full")
	for _, action := range []abiav1.AsyncBackupItemAction{first, second} {
		require.Equal(t, "disk full", s.await(action, id, completed).Err)
	}
	require.Equal(t, 1, s.begun("data"))
}
