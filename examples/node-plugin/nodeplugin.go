// Package nodeplugin builds the JavaScript plugin in this directory, for tests that run it with a host. The plugin
// itself has no Go code. The package only imports the standard library. Start reading at README.md.
package nodeplugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the plugin in dir, an empty directory, and returns the path of its executable file. It needs node and
// npm. npm downloads the packages in package-lock.json or takes them from its cache. The source directory is not
// changed.
func Build(ctx context.Context, dir string) (string, error) {
	source, err := run(ctx, "", "go", "list", "-f", "{{.Dir}}", "github.com/cleat-dev/cleat/examples/node-plugin")
	if err != nil {
		return "", err
	}
	for _, pattern := range []string{"*.mjs", "*.json", ".npmrc", "host/*.proto"} {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if err := copyFile(file, filepath.Join(dir, strings.TrimPrefix(file, source))); err != nil {
				return "", err
			}
		}
	}
	if _, err := run(ctx, dir, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--loglevel=error"); err != nil {
		return "", err
	}
	if _, err := run(ctx, dir, "npm", "run", "--silent", "build", "--", filepath.Join(source, "../../proto")); err != nil {
		return "", err
	}
	return filepath.Join(dir, "dist", "node-plugin"), nil
}

func run(ctx context.Context, dir string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", strings.Join(command, " "), err, stdout, stderr.String())
	}
	return strings.TrimSpace(string(stdout)), nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
