package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ensurePrograms returns the paths of all programs by name. It builds those that
// are neither in KUBEBUILDER_ASSETS nor in the cache. If several processes call
// it, one builds and the others wait.
func ensurePrograms(ctx context.Context, out io.Writer) (map[string]string, error) {
	paths, err := assets(os.Getenv("KUBEBUILDER_ASSETS"))
	if err != nil {
		return nil, err
	}
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	list, err := pinnedPrograms()
	if err != nil {
		return nil, err
	}
	missing := func() (left []program) {
		for _, p := range list {
			switch path := p.path(root); {
			case paths[p.name] != "":
			case executable(path):
				paths[p.name] = path
			default:
				left = append(left, p)
			}
		}
		return left
	}
	if len(missing()) == 0 {
		return paths, nil
	}

	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("creating the cache of built programs: %w", err)
	}
	lock, err := lockFile(ctx, filepath.Join(root, "build.lock"), func() {
		fmt.Fprintln(out, "localcluster: waiting for another process that is building the control plane")
	})
	if err != nil {
		return nil, err
	}
	defer lock.Close()

	left := missing() // another process may have built them in the meantime
	for i, p := range left {
		began := time.Now()
		fmt.Fprintf(out, "[%d/%d] building %s %s\n", i+1, len(left), p.name, p.version)
		if err := build(ctx, p, root); err != nil {
			return nil, fmt.Errorf("building %s %s: %w", p.name, p.version, err)
		}
		fmt.Fprintf(out, "[%d/%d] built in %s\n", i+1, len(left), time.Since(began).Round(time.Second))
		paths[p.name] = p.path(root)
	}
	return paths, nil
}

// build builds a program and moves it into the cache atomically. The caller holds
// the build lock.
func build(ctx context.Context, p program, root string) (err error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("the go command is needed, install it or set KUBEBUILDER_ASSETS: %w", err)
	}
	work, err := os.MkdirTemp(root, ".build-")
	if err != nil {
		return fmt.Errorf("creating a build directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	for from, to := range map[string]string{".mod": "go.mod", ".sum": "go.sum"} {
		data, err := moduleFiles.ReadFile("binaries/" + p.files + from)
		if err != nil {
			return fmt.Errorf("reading the module files: %w", err)
		}
		if err := os.WriteFile(filepath.Join(work, to), data, 0o644); err != nil {
			return fmt.Errorf("writing the module files: %w", err)
		}
	}

	// Without -trimpath, so that all builds use the same flags and Go's build cache.
	cmd := exec.CommandContext(ctx, goTool, "build", "-buildvcs=false",
		"-ldflags", strings.TrimSpace("-s -w "+p.stamp(p.version)), "-o", filepath.Join(work, "bin", p.name), p.pkg)
	cmd.Dir = work
	cmd.Env = buildEnv(os.Environ())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the go command removes its temporary files
	cmd.WaitDelay = stopGrace
	if output, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("go build %s: %w:\n%s", p.pkg, err, output)
	}

	target := filepath.Dir(p.path(root))
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("removing an invalid program from the cache: %w", err)
	}
	if err := os.Rename(filepath.Join(work, "bin"), target); err != nil {
		return fmt.Errorf("moving the program into the cache: %w", err)
	}
	return nil
}

// buildEnv returns env with fixed settings of the go command.
func buildEnv(env []string) []string {
	fixed := []string{
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0",
		"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
	}
	return append(env, fixed...) // the last value of a variable is used
}
