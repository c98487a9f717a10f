package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a cluster that all tests of a package share. The first test that
// needs it starts it. The zero value is ready to use.
type Shared struct {
	// Options configure the cluster.
	Options Options

	once    sync.Once
	cluster *Cluster
	err     error
}

// Main runs the tests of a package, stops the cluster if one was started, and
// returns the exit code for os.Exit.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	s.once.Do(func() {}) // no test may start it any more
	if s.cluster == nil {
		return code
	}
	if err := s.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Get returns the package's cluster. It skips t under -short and fails t if the
// cluster does not start.
func (s *Shared) Get(t testing.TB) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	s.once.Do(func() {
		// The cluster outlives the test that starts it.
		s.cluster, s.err = Start(context.WithoutCancel(t.Context()), s.Options)
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	if s.cluster == nil {
		t.Fatal("Get was called after the tests had ended")
	}
	return s.cluster
}
