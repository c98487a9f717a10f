package glue

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// StateDirEnv is the environment variable by which a host sets Environment.StateDir.
const StateDirEnv = "CLEAT_STATE_DIR"

// Setup is what a constructor gets.
type Setup struct {
	name   string
	env    Environment
	log    hclog.Logger
	config any // of the type that WithConfig declares; nil without
}

// Name returns the name under which the implementation is registered.
func (s *Setup) Name() string { return s.name }

// Logger returns the process's logger for this implementation.
func (s *Setup) Logger() hclog.Logger { return s.log }

// Slog returns Logger for users of log/slog.
func (s *Setup) Slog() *slog.Logger { return NewSlog(s.log) }

// Features returns the host's feature flags.
func (s *Setup) Features() []string { return slices.Clone(s.env.Features) }

// FeatureEnabled reports whether the host runs with a feature flag.
func (s *Setup) FeatureEnabled(name string) bool { return slices.Contains(s.env.Features, name) }

// Config returns the decoded configuration; nil without WithConfig.
func (s *Setup) Config() any { return s.config }

// StateDir returns a directory of this implementation's own, made now when it is not there.
func (s *Setup) StateDir() (string, error) {
	root := cmp.Or(s.env.StateDir, os.Getenv("VELERO_SCRATCH_DIR"), ownTempDir())
	dir := filepath.Join(root, "plugin-state", filepath.FromSlash(s.name))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the state directory (%s sets where it is): %w", StateDirEnv, err)
	}
	return dir, nil
}

// ownTempDir is one for each user, because the directory for temporary files is shared.
func ownTempDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("cleat-%d", os.Getuid()))
}
