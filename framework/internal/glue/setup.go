package glue

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// StateDirEnv is the environment variable with which a host sets Environment.StateDir.
const StateDirEnv = "CLEAT_STATE_DIR"

// Setup is the argument of constructors.
type Setup struct {
	name   string
	env    Environment
	log    hclog.Logger
	config any // of the type that WithConfig declares; nil without it
}

// Name returns the name under which the implementation is registered.
func (s *Setup) Name() string { return s.name }

// Logger returns the process's logger for this implementation.
func (s *Setup) Logger() hclog.Logger { return s.log }

// Slog returns Logger as a log/slog logger.
func (s *Setup) Slog() *slog.Logger { return NewSlog(s.log) }

// Features returns the host's feature flags.
func (s *Setup) Features() []string { return slices.Clone(s.env.Features) }

// FeatureEnabled reports whether the host has enabled a feature flag.
func (s *Setup) FeatureEnabled(name string) bool { return slices.Contains(s.env.Features, name) }

// Config returns the decoded configuration; nil without WithConfig.
func (s *Setup) Config() any { return s.config }

// StateDir returns the implementation's own directory and creates it if needed. The directory is two levels below
// plugin-state, as the name has two parts.
func (s *Setup) StateDir() (string, error) {
	domain, own, _ := strings.Cut(s.name, "/")
	if ValidateName(s.name) != nil || own == "." || own == ".." || strings.ContainsAny(own, "\\:\x00") {
		return "", fmt.Errorf("the plugin name %q cannot be the name of a state directory: register it as domain/name, "+
			"with a name that is not a path", s.name)
	}
	root := cmp.Or(s.env.StateDir, os.Getenv("VELERO_SCRATCH_DIR"), ownTempDir())
	dir := filepath.Join(root, "plugin-state", domain, own)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the state directory (%s sets where it is): %w", StateDirEnv, err)
	}
	return dir, nil
}

// ownTempDir returns a directory for the current user, because the directory for temporary files is shared.
func ownTempDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("cleat-%d", os.Getuid()))
}
