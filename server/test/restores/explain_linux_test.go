package restores_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/test/site"
)

// explained returns what "restore explain" says about an item.
func explained(s *site.Site, restore string, item ...string) (e status.RestoreExplanation, err error) {
	s.T.Helper()
	out, errs, err := s.Run(append([]string{"restore", "explain", restore, "-o", "json"}, item...)...)
	if err != nil {
		return e, fmt.Errorf("%w: %s", err, errs)
	}
	require.NoError(s.T, json.Unmarshal([]byte(out), &e), out)
	return e, nil
}

// TestAcceptGraph_Explain asks why items of a restore wait, while it waits for a namespace that is being deleted, also
// of the server after one that was killed, and what became of them. A bar shows the waves meanwhile.
func TestAcceptGraph_Explain(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := s.Serve()
	s.Available()
	shop := s.Workload(3)
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: app, namespace: %s}}`, shop))
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: hidden, namespace: %s}}`, shop))
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: %s}, spec: {serviceAccountName: app, `+
		`containers: [{name: c, image: "x.invalid/x:1"}], volumes: [{name: v, configMap: {name: item-a}}]}}`, shop))
	a := s.Get(s.Object(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: item-a, namespace: %s}}`, shop)))
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, namespace: %s, `+
		`finalizers: [example.io/x], ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: item-a, uid: %s}]}}`, shop, a.GetUID()))
	s.Must("backup", "create", "b", "--include-namespaces", shop, "--wait")
	into := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop + "-copy"}}
	require.NoError(t, s.Client.Create(t.Context(), into))
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: into.Name, Name: "held",
		Finalizers: []string{"example.io/held"}}}
	require.NoError(t, s.Client.Create(t.Context(), held))
	require.NoError(t, s.Client.Delete(t.Context(), into))
	args := []string{"--from-backup", "b", "--namespace-mappings", shop + ":" + into.Name,
		"--exclude-resources", "secrets", "--restore-owner-references", "--restore-finalizers=false"}

	planned := s.Must(append([]string{"restore", "create", "r", "--dry-run", "--details"}, args...)...)
	require.Regexp(t, `(?m)^wave \d+: pods/`+into.Name+`/web: created.*; waits for .*serviceaccounts/`+shop+`/app`,
		planned)
	require.Regexp(t, `(?m)^ *wave 1 of \d+: 1 namespaces$`, planned)
	require.Regexp(t, `(?m)^ *1 pods wait for serviceaccounts`, planned)

	ended := s.Draws(`restore r: InProgress, wave \d+ of \d+, \d+ of \d+ items?\b`,
		append([]string{"restore", "create", "r", "--wait"}, args...)...)
	live := func(server string) {
		s.Eventually(server+" explains what waits", func(context.Context) (bool, error) {
			e, err := explained(s, "r", "sa/app")
			if err != nil {
				return false, nil // it has not begun
			}
			return e.Live && e.Item.Outcome == outcome.Working && len(e.Item.Waits) == 1 && e.Item.Waits[0].Open, nil
		})
	}
	live("the server")
	e, err := explained(s, "r", "po", shop+"/web")
	require.NoError(t, err)
	require.True(t, e.Live)
	require.Contains(t, []outcome.Verdict{outcome.Waiting, outcome.Working}, e.Item.Outcome)
	text := s.Must("restore", "explain", "r", "pods/"+into.Name+"/web")
	require.Contains(t, text, "pods/"+into.Name+"/web in restore r: ")
	require.Contains(t, s.Must("restore", "describe", "r"), "Order:\n")
	require.Contains(t, s.Must("restore", "graph", "r", "-o", "svg"), "</svg>")
	require.Contains(t, s.Must("restore", "graph", "r"), "pods/"+shop+"/web")
	server.Kill()
	s.Serve()
	live("the next server")
	require.NoError(t, s.Client.Patch(t.Context(), held, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))))
	_, err = ended()
	require.NoError(t, err)

	a = s.Get(s.Object(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: item-a, namespace: %s}}`,
		into.Name)))
	owned := s.Get(s.Object(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, namespace: %s}}`,
		into.Name)))
	require.Len(t, owned.GetOwnerReferences(), 1)
	require.Equal(t, a.GetUID(), owned.GetOwnerReferences()[0].UID)
	require.Empty(t, owned.GetFinalizers())
	_, errs, err := s.Run("restore", "create", "wrong", "--from-backup", "b", "--annotations",
		"cleat.dev/restore-finalizers=maybe", "--wait")
	require.Error(t, err)
	require.Contains(t, errs+err.Error(), `annotation cleat.dev/restore-finalizers: "maybe", want true or false`)

	e, err = explained(s, "r", "pods/"+shop+"/web")
	require.NoError(t, err)
	require.False(t, e.Live)
	require.Equal(t, outcome.Created, e.Item.Outcome, "%+v", e.Item)
	require.Equal(t, shop, e.Item.From)
	require.NotEmpty(t, e.Needs)
	text = s.Must("restore", "explain", "r", "pods/"+shop+"/web")
	require.Contains(t, text, "pods/"+into.Name+"/web in restore r: created\n")
	require.Contains(t, text, "serviceaccounts/"+shop+"/app")
	for item, want := range map[string]string{
		"secrets/" + shop + "/hidden": "Restore r leaves out all secrets: excludedResources excludes secrets\n",
		"cm/" + shop + "/item-a":      "configmaps/" + into.Name + "/item-a in restore r: created\n",
	} {
		require.Contains(t, s.Must("restore", "explain", "r", item), want)
	}
	for item, want := range map[string]string{
		"deploy/" + shop + "/web": "backup b has no item deploy/" + shop + "/web; items with the same name: pods/" + shop +
			"/web",
		"pods/" + shop + "/nobody": "backup b has no item pods/" + shop + `/nobody; "cleat manifest ls b" lists its items`,
		"web":                      `item "web": want RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME`,
	} {
		_, err := explained(s, "r", item)
		require.ErrorContains(t, err, want)
	}
	require.Regexp(t, `(?m)^ *wave 1 of \d+: 1 namespaces$`, s.Must("restore", "describe", "r", "--details"))
	require.Contains(t, s.Files("restores/r"), "restore-r-items.json.gz")
	require.Contains(t, strings.ToLower(s.Must("restore", "graph", "r", "-o", "svg")), "<svg")
}
