//go:build !linux

package process

import (
	"os"
	"os/exec"
)

// command returns the command that runs the binary at path. The file is nil: there is nothing to close after the start.
func command(path, _ string, args []string) (*exec.Cmd, *os.File, error) {
	return exec.Command(path, args...), nil, nil
}
