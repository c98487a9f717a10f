package rehearsals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

var (
	// onNode is a control plane with a node that runs pods.
	onNode site.Plane
	// alone is the control plane of a test that lists all of its objects.
	alone site.Plane
)

func TestMain(m *testing.M) {
	onNode.Options = controlplane.Options{Node: true}
	os.Exit(site.Main(m, onNode.Stop, alone.Stop))
}

// image is the image of the pods.
const image = "shop.invalid/shop:1"

var imported sync.Once

// newOnNode returns a site whose pods run.
func newOnNode(t *testing.T) *site.Site {
	t.Helper()
	cluster := onNode.Installed(t)
	imported.Do(func() {
		require.NoError(t, pods.Import(context.WithoutCancel(t.Context()), cluster, image,
			programs.Build(t, "server/test/rehearsals/testdata/shop")))
	})
	return site.NewIn(t, cluster, "cleat.dev/s3")
}

// objects puts YAML documents into a namespace.
func objects(s *site.Site, namespace string, texts ...string) {
	for _, text := range texts {
		s.Put(strings.ReplaceAll(text, "NS", namespace))
	}
}

// rehearse rehearses a backup and returns its report, and the error of the command.
func rehearse(s *site.Site, backup string, args ...string) (*rehearsal.Report, error) {
	s.T.Helper()
	out, errs, err := s.Run(append([]string{"backup", "rehearse", backup, "-o", "json"}, args...)...)
	if out == "" {
		return nil, errors.Join(err, errors.New(errs))
	}
	report := new(rehearsal.Report)
	require.NoError(s.T, json.Unmarshal([]byte(out), report), out)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs)
	}
	s.T.Logf("%s", errs)
	return report, err
}

// reportOf returns the last report of a backup.
func reportOf(s *site.Site, backup string) (*rehearsal.Report, error) {
	s.T.Helper()
	report := new(rehearsal.Report)
	return report, json.Unmarshal([]byte(s.Must("backup", "rehearsals", backup, "--id", "last", "-o", "json")), report)
}

// requireNothingLeft fails unless all that rehearsals of a site have made is deleted.
func requireNothingLeft(s *site.Site) {
	s.T.Helper()
	var namespaces corev1.NamespaceList
	require.NoError(s.T, s.Client.List(s.T.Context(), &namespaces,
		client.MatchingLabels{"cleat.dev/rehearsal-of": s.Namespace}))
	require.Empty(s.T, namespaces.Items)
	// Other sites have rehearsals at the same time, in the same cluster.
	var restores velerov1.RestoreList
	require.NoError(s.T, s.Client.List(s.T.Context(), &restores, client.InNamespace(s.Namespace)))
	own := map[string]string{}
	for i := range restores.Items {
		own[string(restores.Items[i].UID)] = restores.Items[i].Name
	}
	var volumes corev1.PersistentVolumeList
	require.NoError(s.T, s.Client.List(s.T.Context(), &volumes))
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		require.Empty(s.T, own[volume.Annotations[velerov1.RehearsalLabel]], "volume %s", volume.Name)
	}
}

// reasonOf returns why an item is in a list of a report.
func reasonOf(t *testing.T, list rehearsal.Items, item string) string {
	t.Helper()
	for _, one := range list.Items {
		if one.String() == item {
			return one.Reason
		}
	}
	require.Fail(t, "not in the list", "%s: %v", item, list.Items)
	return ""
}
