package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"
)

// Shared is a cluster that all tests of a package share. The first test that
// needs it starts it. The zero value is ready to use.
type Shared struct {
	// Options configure the cluster.
	Options Options
	// Common lets the tests share a cluster with other packages, where one is offered ("make test" does). The tests
	// must use only namespaces and buckets of their own, the definitions of this module's custom resources, and no
	// Options.
	Common bool
	// Servers lets the tests share another cluster, on which packages run servers that may create cluster-scoped
	// objects under names of their own. Otherwise it is like Common.
	Servers bool

	once    sync.Once
	cluster *Cluster
	own     bool // Stop stops it
	err     error
}

// Main runs the tests of a package, stops the cluster if one was started, and returns the exit code for os.Exit.
// Clients of a cluster have small heaps and much garbage: like its components, the tests collect it less often.
func (s *Shared) Main(m *testing.M) int {
	debug.SetGCPercent(400)
	return max(m.Run(), s.Stop())
}

// Stop stops the cluster, if one was started, and returns 1 if that fails. Main calls it. A package with several
// clusters calls it for the others, after Main.
func (s *Shared) Stop() int {
	s.once.Do(func() {}) // no test may start it after this
	if s.cluster == nil || !s.own {
		return 0
	}
	if err := s.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// offered returns the environment variable that may name a shared cluster.
func (s *Shared) offered() string {
	switch {
	case s.Common:
		return commonVariable
	case s.Servers:
		return serversVariable
	}
	return ""
}

// Get returns the package's cluster. It skips t under -short, and if Options require a node that cannot run. It fails
// t if the cluster does not start.
func (s *Shared) Get(t testing.TB) *Cluster {
	t.Helper()
	cluster, err := s.Find(t)
	if err != nil {
		t.Skip(err)
	}
	return cluster
}

// Find is like Get for tests that do not require a node: if Options require one that cannot run, it returns an error
// that wraps ErrNoNode.
func (s *Shared) Find(t testing.TB) (*Cluster, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	s.once.Do(func() {
		if variable := s.offered(); variable != "" {
			if s.cluster, s.err = common(variable); s.cluster != nil || s.err != nil {
				return
			}
		}
		// The cluster outlives the test that starts it.
		s.cluster, s.err = Start(context.WithoutCancel(t.Context()), s.Options)
		s.own = true
	})
	if errors.Is(s.err, ErrNoNode) {
		return nil, s.err
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	if s.cluster == nil {
		t.Fatal("Get was called after the tests had ended")
	}
	return s.cluster, nil
}
