// Package nodeplugin builds the plugin in JavaScript that stands beside it, for tests that run it behind a host. The plugin
// itself has no Go. Start reading at README.md.
package nodeplugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build makes the plugin in dir, an empty folder, and is the path of its one executable file. It needs node and npm, and
// the packages of package-lock.json, which npm keeps in its own cache. The sources' folder stays as it is.
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
