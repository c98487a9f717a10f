package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Program is a static binary for a platform.
type Program struct {
	Name     string // in an image or an archive, with slashes
	Version  string
	Path     string
	Licenses []byte // of all that it contains
}

// source is where a program comes from.
type source struct {
	name   string // of the program
	module string // directory in the source tree
	pkg    string
	of     string // the module that has the program, if it is of others
}

// build builds a program from the source tree at root. The bytes of the binary depend on the source, the version, the
// platform and the version of Go only.
func (s source) build(ctx context.Context, root, path, version string, platform v1.Platform) (Program, error) {
	dir := filepath.Join(root, filepath.FromSlash(s.module))
	goCommand := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+platform.OS, "GOARCH="+
			platform.Architecture)
		var log bytes.Buffer
		cmd.Stderr = &log
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("build %s for %s: %w\n%s%s", s.name, platform, err, out, log.Bytes())
		}
		return out, nil
	}
	_, err := goCommand("build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags=-s -w -buildid= -X main.linked="+version, "-o", path, s.pkg)
	if err != nil {
		return Program{}, err
	}
	packages, err := goCommand("list", "-mod=readonly", "-deps", "-f", packagesOf, s.pkg)
	if err != nil {
		return Program{}, err
	}
	p := Program{Name: s.name, Version: version, Path: path}
	if p.Licenses, err = licenses(root, version, packages); err != nil || s.of == "" {
		return p, err
	}
	found, err := goCommand("list", "-m", "-f", "{{.Version}}", s.of)
	p.Version = strings.TrimSpace(string(found))
	return p, err
}
