package backup_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

// TestAllVersionsAreBackedUp tests the feature EnableAPIGroupVersions.
func TestAllVersionsAreBackedUp(t *testing.T) {
	t.Parallel()
	config := connect(t, plane.Get(t).Kubeconfig)
	create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", "versions", nil, ""})
	create(t.Context(), t, config, fixtureObject{"horizontalpodautoscalers.autoscaling", "v2", "HorizontalPodAutoscaler",
		"versions", "web", nil,
		`"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
		"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"Utilization","averageUtilization":50}}}]}`})
	deps := depsFor(t, config)
	deps.AllVersions = true
	var out bytes.Buffer
	result, err := backup.Run(t.Context(), deps,
		backup.Request{Log: hclog.NewNullLogger(), Backup: newBackup(func(s *velerov1.BackupSpec) {
			s.IncludedNamespaces = []string{"versions"}
		})}, &out)
	require.NoError(t, err)
	require.Zero(t, result.Errors)
	for _, kind := range []string{"autoscaling/v2/HorizontalPodAutoscaler", "autoscaling/v1/HorizontalPodAutoscaler"} {
		require.Equal(t, []string{"versions/web"}, slices.Collect(result.ResourceList.Of(kind)))
	}

	scalers := schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}
	a, err := archive.Open(t.Context(), bytes.NewReader(out.Bytes()), t.TempDir(), archive.Options{AllVersions: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	preferred, others := a.Versions(scalers)
	require.Equal(t, "v2", preferred)
	require.Equal(t, []string{"v1"}, others)
	read := func() string {
		entry, ok := a.Find(scalers, "versions", "web")
		require.True(t, ok)
		raw, err := a.Read(entry)
		require.NoError(t, err)
		return string(raw)
	}
	require.Contains(t, read(), `"apiVersion":"autoscaling/v2"`)
	a.Use(scalers, "v1")
	require.Contains(t, read(), `"apiVersion":"autoscaling/v1"`)
}

// requests counts the lists that are requested with and without a limit.
type requests struct {
	http.RoundTripper
	mu               sync.Mutex
	limited, unpaged int
}

func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/configmaps") || strings.HasSuffix(req.URL.Path, "/namespaces") {
		r.mu.Lock()
		if req.URL.Query().Has("limit") {
			r.limited++
		} else {
			r.unpaged++
		}
		r.mu.Unlock()
	}
	return r.RoundTripper.RoundTrip(req)
}

// TestListsAreReadWholeWithoutPages tests --client-page-size 0.
func TestListsAreReadWholeWithoutPages(t *testing.T) {
	t.Parallel()
	for size, whole := range map[int]bool{-1: true, 0: false, 7: false} {
		config := rest.CopyConfig(fixtureWorld(t))
		seen := &requests{}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { seen.RoundTripper = next; return seen })
		deps := depsFor(t, config)
		deps.PageSize = size
		b := take(t.Context(), t, deps,
			backup.Request{Backup: newBackup(func(s *velerov1.BackupSpec) { s.IncludedNamespaces = []string{"shop-prod"} })})
		require.Contains(t, b.fixtureIDs(), "configmaps:shop-prod/settings")
		require.Equal(t, whole, seen.limited == 0, size)
		require.Equal(t, whole, seen.unpaged > 0, size)
	}
}

// TestEveryItemHasALineInTheLog shows that users find each item of a backup in its log.
func TestEveryItemHasALineInTheLog(t *testing.T) {
	t.Parallel()
	log, err := runlog.New(runlog.Options{Dir: t.TempDir(), Now: time.Now,
		Tee: hclog.New(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Info})}, "backup", "velero/b")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)),
		backup.Request{Log: log.Logger(), Backup: newBackup(func(s *velerov1.BackupSpec) {
			s.IncludedNamespaces = []string{"shop-*"}
		})})
	stored, err := log.Reader()
	require.NoError(t, err)
	gz, err := gzip.NewReader(stored)
	require.NoError(t, err)
	text, err := io.ReadAll(gz)
	require.NoError(t, err)
	require.Equal(t, b.Items, strings.Count(string(text), `msg="Backed up `))
	require.Contains(t, string(text), " items out of an estimated total of ")
	for id := range b.objects {
		resource, name, _ := strings.Cut(id, ":")
		fields := " name=" + name
		if namespace, name, ok := strings.Cut(name, "/"); ok {
			fields = " name=" + name + " namespace=" + namespace
		}
		fields = strings.ReplaceAll(fields, "name=fixture:reader", `name="fixture:reader"`)
		require.Contains(t, string(text), fields+" resource="+resource+"\n", id)
	}
}

// TestRulesOfThePolicyLimitWhatIsBackedUp uses the filters per namespace and kind of a resource policy.
func TestRulesOfThePolicyLimitWhatIsBackedUp(t *testing.T) {
	t.Parallel()
	web, err := labels.Parse("app=web")
	require.NoError(t, err)
	names, err := filter.NewNames([]string{"s*"}, nil)
	require.NoError(t, err)
	policy := &resourcepolicy.Policy{Rules: filter.RuleLists{Namespaces: []filter.NamespaceRules{
		{Namespaces: []string{"shop-*"}, Rules: []filter.Rule{{Kinds: []string{"ConfigMap"}, Names: names},
			{Kinds: []string{"Widget", "Service"}, Selectors: []labels.Selector{web}}}},
	}}}
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)),
		backup.Request{Policy: policy, Backup: newBackup(func(s *velerov1.BackupSpec) {
			s.IncludedNamespaces = []string{"shop-prod", "shop-test", "bank1", "bank-prod"}
			s.LabelSelector = &metav1.LabelSelector{MatchLabels: labelSet{"app": "bank"}}
		})})
	require.Equal(t, []string{
		"configmaps:bank-prod/settings", "configmaps:shop-prod/settings", "configmaps:shop-test/settings",
		"customresourcedefinitions.apiextensions.k8s.io:widgets.example.com",
		"namespaces:bank-prod", "namespaces:bank1", "namespaces:shop-prod", "namespaces:shop-test",
		"services:shop-prod/web", "widgets.example.com:shop-prod/round",
	}, b.fixtureIDs(), "the rules decide in their namespaces, the selector of the spec elsewhere")
	require.Empty(t, b.Results.Warnings.Velero)
}
