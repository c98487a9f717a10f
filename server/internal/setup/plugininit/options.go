package plugininit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// frameworkModule is the module that plugins import.
const frameworkModule = "github.com/cleat-dev/cleat"

// Options describe the project to write.
type Options struct {
	// Name of the plugin, "domain/name": "example.io/stamp". All plugins of the project have it.
	Name string
	// Module is the path of the Go module; empty for Name.
	Module string
	// Kinds are names of kinds, in upper or lower case; none for a BackupItemAction.
	Kinds []string
	// Framework is a version, "v1.2.3", or for development the path of a source tree. If it is empty, the project requires
	// no version, and `go mod tidy` finds the latest.
	Framework string
}

// source is the origin of the framework: a version, a path, or the latest version if both are empty.
type source struct {
	Version string
	Path    string
}

// developed is the version that go.mod requires if the framework is a source tree.
const developed = "v0.0.0-00010101000000-000000000000"

// baseName matches a part after the slash that can also name a file, an image and a folder.
var baseName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?$`)

// base returns the part of a plugin's name after the slash.
func base(name string) (string, error) {
	if err := hostapi.ValidateName(name); err != nil {
		return "", err
	}
	base := path.Base(name)
	if !baseName.MatchString(base) {
		return "", fmt.Errorf("plugin name %q: %q must be at most 63 lower-case letters, digits, '-', '_' and '.', "+
			"with a letter or digit at both ends, since it names the binary too", name, base)
	}
	return base, nil
}

// Folder returns the default folder of a plugin's project: the part of its name after the slash.
func Folder(name string) (string, error) { return base(name) }

func (o Options) module() (string, error) {
	given := cmp.Or(o.Module, o.Name)
	if err := module.CheckPath(given); err != nil {
		hint := ""
		if o.Module == "" {
			hint = ", and the name of the plugin stands for it; choose a module"
		}
		return "", fmt.Errorf("module %q is not the path of a Go module, like \"example.io/stamp\": %w%s", given,
			errors.Unwrap(err), hint)
	}
	if given == frameworkModule || strings.HasPrefix(given, frameworkModule+"/") {
		return "", fmt.Errorf("module %q is taken: it belongs to the framework", given)
	}
	return given, nil
}

// SourceTree returns the source tree of the framework that one of the paths is in, and "" when none is. A development
// build has it around the program or the working directory.
func SourceTree(paths ...string) string {
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			continue
		}
		for dir, below := path, ""; dir != below; dir, below = filepath.Dir(dir), dir {
			content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && modfile.ModulePath(bytes.TrimSpace(content)) == frameworkModule {
				return dir
			}
		}
	}
	return ""
}

func (o Options) framework() (source, error) {
	given := o.Framework
	if given == "" {
		return source{}, nil
	}
	if !strings.ContainsAny(given, `/\`) && given != "." && given != ".." {
		if semver.Canonical(given) != given || semver.Build(given) != "" {
			return source{}, fmt.Errorf("framework %q is neither a version, like \"v1.2.3\", nor the path of a source tree, "+
				"like \"../cleat\"", given)
		}
		return source{Version: given}, nil
	}
	absolute, err := filepath.Abs(given)
	if err != nil {
		return source{}, fmt.Errorf("framework %q: %w", given, err)
	}
	file := filepath.Join(absolute, "go.mod")
	content, err := os.ReadFile(file)
	if err != nil {
		return source{}, fmt.Errorf("framework %q is not a source tree of %s: %w", given, frameworkModule, err)
	}
	if found := modfile.ModulePath(bytes.TrimSpace(content)); found != frameworkModule {
		return source{}, fmt.Errorf("framework %q is not a source tree of %s: its go.mod declares %q", given, frameworkModule,
			found)
	}
	return source{Version: developed, Path: modfile.AutoQuote(absolute)}, nil
}
