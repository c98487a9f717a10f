//go:build !linux

package process

import (
	"io/fs"
	"os"
	"os/exec"
)

// IdentityOf returns the identity of a file.
func IdentityOf(info fs.FileInfo) Identity {
	return Identity{size: info.Size(), Modified: info.ModTime().UnixNano()}
}

func (b *Binary) command(_ string, args []string) (*exec.Cmd, error) {
	return exec.Command(b.Path, args...), nil
}

func (b *Binary) copyOf(string) (*os.File, error) { return b.File, nil }

func (b *Binary) runError(err error) error { return err }
