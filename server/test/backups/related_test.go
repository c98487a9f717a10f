package backups_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptBackup_RelatedItems backs up by label items that share volumes with others. The items that an item needs
// are included; a pod that only mounts the same claim is not, unless the selector selects it or an action relates it.
func TestAcceptBackup_RelatedItems(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	plugins := t.TempDir()
	programs.Copy(t, "server/test/site/testdata/blocks", filepath.Join(plugins, "blocks"))
	config := filepath.Join(t.TempDir(), "cleat.yaml")
	text := fmt.Sprintf("apiVersion: cleat.dev/v1\nplugins: {variables: {BLOCKS_DIR: %q}}\n", t.TempDir())
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	s.Serve("--config", config, "--plugin-dir", plugins)
	s.Available()

	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: cove-}}`).GetName()
	s.Eventually("its pods have a service account", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	s.BoundClaim(ns+"-shared", ns, "shared", "Retain")
	s.BoundClaim(ns+"-own", ns, "own", "Retain")
	pod := func(name, annotations string, claims ...string) {
		var volumes []string
		for _, claim := range claims {
			volumes = append(volumes, fmt.Sprintf("{name: %s, persistentVolumeClaim: {claimName: %s}}", claim, claim))
		}
		o := s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {app: %s}, annotations: {%s}}, spec: {
			containers: [{name: c, image: "x.invalid/x:1"}], volumes: [%s]}}`, name, ns, name, annotations, strings.Join(volumes, ", ")))
		s.Change(o, `{"status":{"phase":"Running"}}`)
	}
	pod("web", "", "shared")
	pod("cron", "", "shared", "own")
	pod("leader", fmt.Sprintf("blocks/relates: pods/%s/follower", ns), "shared")
	pod("follower", "")

	for name, test := range map[string]struct{ args, pods, claims []string }{
		"by-label":   {args: []string{"--selector", "app=web"}, pods: []string{"web"}, claims: []string{"shared"}},
		"the-others": {args: []string{"--selector", "app=cron"}, pods: []string{"cron"}, claims: []string{"own", "shared"}},
		"either": {args: []string{"--or-selector", "app=web or app=cron"}, pods: []string{"cron", "web"},
			claims: []string{"own", "shared"}},
		"insisted": {args: []string{"--selector", "app=leader"}, pods: []string{"follower", "leader"},
			claims: []string{"shared"}},
		"all": {pods: []string{"cron", "follower", "leader", "web"}, claims: []string{"own", "shared"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := s.In(t)
			of.Must(append([]string{"backup", "create", name, "--include-namespaces", ns, "--wait"}, test.args...)...)
			names := func(resource, namespaced string) (names []string) {
				for _, path := range of.Entries(name) {
					if file, found := strings.CutPrefix(path, "resources/"+resource+"/"+namespaced); found {
						names = append(names, strings.TrimSuffix(file, ".json"))
					}
				}
				return names
			}
			require.ElementsMatch(t, test.pods, names("pods", "namespaces/"+ns+"/"))
			require.ElementsMatch(t, test.claims, names("persistentvolumeclaims", "namespaces/"+ns+"/"))
			var volumes []string
			for _, claim := range test.claims {
				volumes = append(volumes, ns+"-"+claim)
			}
			require.ElementsMatch(t, volumes, names("persistentvolumes", "cluster/"))
		})
	}
}
