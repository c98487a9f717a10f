package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/framework"
)

// Program is a restic program of a version.
type Program struct {
	path    string
	version [3]int
}

// oldest is the oldest version that works: it has repositories of version 2, which Velero makes.
var oldest = [3]int{0, 14, 0}

var versionLine = regexp.MustCompile(`^restic (\d+)\.(\d+)\.(\d+)`)

// Find returns the program called name, after it has asked it for its version: a path, a file that came with the
// plugin, or one in PATH.
func Find(ctx context.Context, name string) (*Program, error) {
	const advice = "install restic 0.14 or newer in PATH, or name it in plugins.config (key program)"
	path, err := exec.LookPath(beside(name))
	if err != nil {
		return nil, framework.Invalid("find the restic program: %w; %s", err, advice)
	}
	p := &Program{path: path}
	printed, err := p.print(ctx, "version")
	if err != nil {
		return nil, err
	}
	found := versionLine.FindStringSubmatch(printed)
	if found == nil {
		return nil, framework.Invalid("%s is not restic, its version is %q; %s", path, firstLine(printed), advice)
	}
	for i := range p.version {
		p.version[i], _ = strconv.Atoi(found[i+1]) // digits
	}
	if !p.AtLeast(oldest[0], oldest[1]) {
		return nil, framework.Invalid("%s is restic %s; %s", path, p.Version(), advice)
	}
	return p, nil
}

// beside returns the path of the program called name that came with the plugin, in the directory .cleat-restic beside
// it, where a host does not look for plugins; or else name.
func beside(name string) string {
	plugin := os.Args[0] // by which the host has found it; what runs may be a copy that is nowhere
	if !filepath.IsAbs(plugin) || name != filepath.Base(name) {
		return name
	}
	path := filepath.Join(filepath.Dir(plugin), ".cleat-restic", name)
	if _, err := os.Stat(path); err != nil {
		return name
	}
	return path
}

// print returns what a command prints that needs no repository.
func (p *Program) print(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = Environment()
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", p.path, strings.Join(args, " "), err, firstLine(string(output)))
	}
	return string(output), nil
}

// Version returns the version: "0.14.0".
func (p *Program) Version() string {
	return fmt.Sprintf("%d.%d.%d", p.version[0], p.version[1], p.version[2])
}

// AtLeast reports whether the version is major.minor or newer.
func (p *Program) AtLeast(major, minor int) bool {
	return p.version[0] > major || p.version[0] == major && p.version[1] >= minor
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
