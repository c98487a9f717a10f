package main_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCommandsOfTheReadmeWork runs each command in the document, with directories and a bucket of the test.
func TestCommandsOfTheReadmeWork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	adapt := strings.NewReplacer("bin/plugins/", t.TempDir()+"/", "--namespace velero", "--namespace "+s.namespace,
		"/volumes", s.volumes, "s3://mover?region=eu-central-1", s.bucketURL())
	commands, fenced := 0, false
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		command, indented := strings.CutPrefix(line, "    ")
		if !indented || fenced || strings.HasPrefix(command, "go test") {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+adapt.Replace(command))
		cmd.Dir, cmd.Env = "../..", s.environ()
		log := &output{}
		cmd.Stdout, cmd.Stderr = log, log
		require.NoError(t, cmd.Start())
		if strings.Contains(command, " --bucket ") { // a controller, which runs until it is stopped
			require.Eventually(t, func() bool { return strings.Contains(log.String(), "Starting workers") }, patience,
				50*time.Millisecond)
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		}
		require.NoError(t, cmd.Wait(), "%s\n%s", command, log)
	}
	require.Equal(t, 4, commands)
}
