package site

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"regexp"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/terminal"
)

// Draws runs a command on a terminal and returns when it has drawn what matches a pattern. ended waits for the end of
// the command and returns what it has printed besides.
func (s *Site) Draws(want string, args ...string) (ended func() (string, error)) {
	s.T.Helper()
	tty, behind := terminal.Open(s.T, 160, 24)
	var out bytes.Buffer
	cmd := exec.Command(Program(s.T), append(args, "--kubeconfig", s.Kubeconfig, "--namespace", s.Namespace)...)
	cmd.Stdout, cmd.Stderr = &out, tty
	require.NoError(s.T, cmd.Start())
	timer := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill(); _ = tty.Close() }) // limits the wait
	s.T.Cleanup(func() { timer.Stop() })
	drawn, reader := "", bufio.NewReader(behind)
	for matches := regexp.MustCompile(want).MatchString; !matches(drawn); {
		text, err := reader.ReadString('\r')
		require.NoError(s.T, err, drawn)
		drawn += text
	}
	go func() { _, _ = reader.WriteTo(io.Discard) }()
	return func() (string, error) {
		err := cmd.Wait()
		return out.String(), err
	}
}
