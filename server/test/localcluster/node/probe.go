package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Check returns the reason why this machine cannot run a node, in one line. It tries everything that needs the
// machine's permission in temporary namespaces. The packages must be unpacked.
func Check(ctx context.Context, packages string) (err error) {
	if runtime.GOOS != "linux" {
		return errors.New("it needs Linux")
	}
	if os.Geteuid() != 0 {
		return errors.New("it needs to be root, for namespaces, mounts and control groups")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cleat-node-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, path := range []string{dir, program, packages} {
		for _, below := range covered {
			if strings.HasPrefix(path, below+"/") {
				return fmt.Errorf("%s is in %s, over which a node has a directory of its own: set TMPDIR or XDG_CACHE_HOME", path,
					below)
			}
		}
	}
	c := Config{Name: filepath.Base(dir), Dir: dir, TryOnly: true}
	if err := c.Write(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "node", c.Path())
	cmd.SysProcAttr = Attributes(&syscall.SysProcAttr{})
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s (%w)", strings.TrimPrefix(string(bytes.TrimSpace(out)), "localcluster: "), err)
	}
	return errors.Join(err, Remove(dir))
}
