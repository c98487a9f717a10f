package operations_test

import (
	"bufio"
	"bytes"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_ProgressBar reads the bar of a backup that waits for operations from a terminal.
func TestAcceptOperations_ProgressBar(t *testing.T) {
	t.Parallel()
	terminal, behind := clitest.PseudoTerminal(t, 160, 24)
	s := site.New(t, "cleat.dev/s3")
	w := s.Work()
	s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(1)
	s.Item(shop, "long", "keyed", "length", "10h")
	s.Item(shop, "short", "keyed")

	var out bytes.Buffer
	cmd := exec.Command(site.Program(t), "backup", "create", "nightly", "--include-namespaces", shop, "--wait",
		"--kubeconfig", s.Kubeconfig, "--namespace", s.Namespace)
	cmd.Stdout, cmd.Stderr = &out, terminal
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill(); _ = terminal.Close() }) // limits the wait
	defer timer.Stop()
	shown := ""
	reader := bufio.NewReader(behind)
	want := regexp.MustCompile(`backup nightly: WaitingForPluginOperations, 100\d B of 2.0 KiB[^\r]*\(1/2\)`)
	for !want.MatchString(shown) {
		text, err := reader.ReadString('\r')
		require.NoError(t, err, shown)
		shown += text
	}
	s.Must("backup", "cancel", "nightly")
	go func() { _, _ = reader.WriteTo(&bytes.Buffer{}) }()
	require.Error(t, cmd.Wait(), "it is not Completed")
	require.Equal(t, "Backup request \"nightly\" submitted successfully.\n", out.String())
}
