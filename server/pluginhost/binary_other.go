//go:build !linux

package pluginhost

import (
	"io/fs"
	"os/exec"
)

func identityOf(info fs.FileInfo) identity {
	return identity{size: info.Size(), modified: info.ModTime().UnixNano()}
}

func (b *binary) command(_ string, args []string) (*exec.Cmd, error) {
	return exec.Command(b.path, args...), nil
}

func (b *binary) runError(err error) error { return err }
