package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// moverKind is a data mover with the bare program that is its limit.
type moverKind struct {
	uploader velerov1.RepositoryType // in the spec of loads
	plugin   string                  // path of the mover
	path     string                  // directory of programs that the mover needs; empty for none
	bare     func(dir, volume string) *bareMover
}

// findRestic returns cleat.dev/restic, whose limit is the program restic.
func findRestic() (*moverKind, error) {
	program, err := programs.FindRestic()
	if err != nil {
		return nil, err
	}
	plugin, err := programs.Link("plugins/restic/cmd/cleat-restic")
	return &moverKind{
		uploader: velerov1.RepositoryTypeRestic, plugin: plugin, path: filepath.Dir(program),
		bare: func(dir, volume string) *bareMover { return bareRestic(program, dir, volume) },
	}, err
}

// findKopia returns cleat.dev/kopia, whose limit is a program that does nothing but call kopia's packages.
func findKopia() (*moverKind, error) {
	plugin, err := programs.BuildModule("plugins/kopia/cmd/cleat-kopia")
	if err != nil {
		return nil, err
	}
	program, err := programs.BuildModule("plugins/kopia/internal/bare")
	return &moverKind{
		uploader: velerov1.RepositoryTypeKopia, plugin: plugin,
		bare: func(dir, volume string) *bareMover { return bareKopia(program, dir, volume) },
	}, err
}

// bareMover moves a volume without a host. Like the mover, it has a repository, a password and a parent.
type bareMover struct {
	dir                     string // of all that it writes
	create, backUp, restore func(ctx context.Context) error
}

// prepare makes the directory of a bare mover and its repository.
func (b *bareMover) prepare(ctx context.Context) error {
	if err := errors.Join(os.MkdirAll(b.target(), 0o750), os.Mkdir(b.state(), 0o750)); err != nil {
		return err
	}
	return b.create(ctx)
}

func (b *bareMover) repository() string { return filepath.Join(b.dir, "repository") }
func (b *bareMover) state() string      { return filepath.Join(b.dir, "state") }

// target is where it restores to.
func (b *bareMover) target() string { return filepath.Join(b.dir, "target") }

func bareRestic(program, dir, volume string) *bareMover {
	b := &bareMover{dir: dir}
	run := func(ctx context.Context, in string, args ...string) error {
		cmd := exec.CommandContext(ctx, program, append(args, "--repo="+b.repository(), "--cache-dir="+b.state(),
			"--json")...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "RESTIC_PASSWORD=secret", "RESTIC_PROGRESS_FPS=1")
		_, err := output(cmd)
		return err
	}
	b.create = func(ctx context.Context) error { return run(ctx, dir, "init") }
	b.backUp = func(ctx context.Context) error { return run(ctx, volume, "backup", ".", "--host=velero") }
	b.restore = func(ctx context.Context) error { return run(ctx, b.target(), "restore", "latest", "--target=.") }
	return b
}

// bareKopia uses a program with the verbs of plugins/kopia/internal/bare.
func bareKopia(program, dir, volume string) *bareMover {
	b := &bareMover{dir: dir}
	var snapshot string
	run := func(ctx context.Context, action string, args ...string) (string, error) {
		return output(exec.CommandContext(ctx, program, append([]string{action, b.repository(), b.state()}, args...)...))
	}
	b.create = func(ctx context.Context) error {
		_, err := run(ctx, "create")
		return err
	}
	b.backUp = func(ctx context.Context) (err error) {
		snapshot, err = run(ctx, "backup", volume)
		return err
	}
	b.restore = func(ctx context.Context) error {
		_, err := run(ctx, "restore", b.target(), snapshot)
		return err
	}
	return b
}

// output runs a command and returns the text that it prints.
func output(cmd *exec.Cmd) (string, error) {
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		text := problems.String()
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(cmd.Path), cmd.Args[1], err, text[max(0, len(text)-500):])
	}
	return strings.TrimSpace(string(out)), nil
}
