package install_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// besideVelero is the control plane of the tests with the real Velero. It has Velero's definitions.
var besideVelero veleroPlane

type veleroPlane struct {
	once    sync.Once
	cluster *controlplane.Cluster
	err     error
}

// get returns the control plane. The first call starts it.
func (p *veleroPlane) get(t *testing.T, programs *velero.Programs) *controlplane.Cluster {
	t.Helper()
	p.once.Do(func() {
		ctx := context.WithoutCancel(t.Context()) // the cluster outlives the test that starts it
		if p.cluster, p.err = controlplane.Start(ctx, controlplane.Options{Log: io.Discard}); p.err == nil {
			v := velero.Site{Programs: programs, Kubeconfig: p.cluster.Kubeconfig, WorkDir: t.TempDir()}
			_, p.err = v.Run(ctx, "install", "--crds-only")
		}
	})
	require.NoError(t, p.err)
	return p.cluster
}

// stop stops the control plane, if one was started, and returns the exit code.
func (p *veleroPlane) stop() int {
	if p.cluster == nil {
		return 0
	}
	if err := p.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// newVeleroSite returns an installation in a cluster with Velero's definitions, and Velero in its namespace. No server
// runs yet. It skips the test if Velero is not built.
func newVeleroSite(t *testing.T) (*site.Site, *velero.Site) {
	t.Helper()
	programs := velero.Get(t)
	s := site.NewIn(t, besideVelero.get(t, programs), "aws")
	return s, &velero.Site{Programs: programs, Kubeconfig: s.Kubeconfig, Namespace: s.Namespace, WorkDir: t.TempDir()}
}

// serveVelero starts Velero's server. The end of the test kills it.
func serveVelero(s *site.Site, v *velero.Site, flags ...string) *velero.Server {
	s.T.Helper()
	server, err := v.Serve(v.PluginDir, flags...)
	require.NoError(s.T, err)
	s.T.Cleanup(func() {
		server.Kill()
		if log := server.Log(); s.T.Failed() {
			s.T.Logf("log of Velero:\n%s", log[max(0, len(log)-16<<10):])
		}
	})
	return server
}
