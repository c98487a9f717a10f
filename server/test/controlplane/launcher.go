package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// mainModule is the module whose source tree contains the launcher.
const mainModule = "github.com/cleat-dev/cleat"

// buildLauncher returns the path of a launcher built from the source in this
// tree. The cache has one for each hash of the source. Test binaries that start
// at the same time may each build it, with the same result.
func buildLauncher(ctx context.Context) (path string, err error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root, err := repositoryRoot(wd)
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "server", "test", "localcluster")
	sum, err := sourceSum(source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory for the launcher, set XDG_CACHE_HOME or HOME: %w", err)
	}
	dir := filepath.Join(cache, "cleat", "localcluster")
	target := filepath.Join(dir, "launcher-"+sum)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, ".launcher-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	built := filepath.Join(work, "localcluster")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", built, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath", "GOWORK=off", "CGO_ENABLED=0",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build in %s: %w:\n%s", source, err, output)
	}
	if err := os.Rename(built, target); err != nil {
		return "", err
	}
	return target, nil
}

// repositoryRoot returns the directory of the main module, which is dir or above
// it.
func repositoryRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		first, _, _ := bytes.Cut(data, []byte("\n"))
		if strings.TrimSpace(string(first)) == "module "+mainModule {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod of %s in %s or above it: run the tests inside its source tree", mainModule, dir)
		}
	}
}

// sourceSum returns a hash of the launcher's source and the version of the compiler.
func sourceSum(dir string) (string, error) {
	var names []string
	for _, pattern := range []string{"*.go", "go.*", filepath.Join("binaries", "*"), filepath.Join("node", "*.go")} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return "", fmt.Errorf("there is no source of the launcher in %s", dir)
	}
	slices.Sort(names)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(name), len(data), data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}
