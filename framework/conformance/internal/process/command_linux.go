package process

import (
	"os"
	"os/exec"
	"path/filepath"
)

// command returns the command that runs the binary at path as the server does on Linux: by a link in dir to the open
// file, which the process inherits as descriptor 3. A script sees the link as its own path, so it must resolve links to
// find the files next to it. The caller closes the returned file after the start.
func command(path, dir string, args []string) (*exec.Cmd, *os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	link := filepath.Join(dir, filepath.Base(path))
	if err := os.Symlink("/proc/self/fd/3", link); err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return &exec.Cmd{Path: link, Args: append([]string{path}, args...), ExtraFiles: []*os.File{file}}, file, nil
}
