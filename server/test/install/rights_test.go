package install_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/test/site"
)

// The places of rights in the table of SECURITY.md.
const (
	inCluster    = "cluster"
	inOwn        = "own namespace"
	inNamespaces = "--rbac-namespaces"
)

// right is one verb on one resource.
type right struct{ account, where, group, resource, verb string }

// rightsOfTable returns the rights that SECURITY.md lists for an installation with some features and flags.
func rightsOfTable(t *testing.T, with ...string) map[right]bool {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(checkout, "SECURITY.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(document), "\n## The rights of `--rbac least`\n")
	require.True(t, found, "SECURITY.md has no table of rights")
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	names := func(text string) (all []string) {
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			all = append(all, match[1])
		}
		return all
	}
	listed := map[right]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 || !strings.HasPrefix(line, "| `") {
			continue
		}
		require.NotEmpty(t, strings.TrimSpace(cells[5]), "no reason: %s", line)
		if slices.ContainsFunc(names(cells[4]), func(needed string) bool { return !slices.Contains(with, needed) }) {
			continue
		}
		resources, group, _ := strings.Cut(cells[2], " of ")
		where := strings.Trim(cells[1], " `")
		require.Contains(t, []string{inCluster, inOwn, inNamespaces}, where, line)
		for _, resource := range names(resources) {
			for verb := range strings.SplitSeq(cells[3], ",") {
				one := right{names(cells[0])[0], where, strings.Trim(group, " `"), resource, strings.TrimSpace(verb)}
				require.False(t, listed[one], "twice: %v", one)
				listed[one] = true
			}
		}
	}
	require.NotEmpty(t, listed)
	return listed
}

// add adds the rights of a rule.
func add(to map[right]bool, account, where string, groups, resources, verbs []string) {
	for _, group := range groups {
		for _, resource := range resources {
			for _, verb := range verbs {
				to[right{account, where, group, resource, verb}] = true
			}
		}
	}
}

// rightsOfRoles returns the rights that the printed objects of an installation give.
func rightsOfRoles(t *testing.T, s *site.Site, printed string) map[right]bool {
	t.Helper()
	type key struct{ kind, namespace, name string }
	rules, given := map[key][]rbacv1.PolicyRule{}, map[right]bool{}
	objects := site.ByName(t, bytes.NewReader([]byte(printed)))
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			var role rbacv1.ClusterRole // which a Role looks like
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
			rules[key{kind, role.Namespace, role.Name}] = role.Rules
		}
	}
	for _, object := range objects {
		if kind := object.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		var binding rbacv1.RoleBinding
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding))
		where := inNamespaces
		switch binding.Namespace {
		case "":
			where = inCluster
		case s.Namespace:
			where = inOwn
		}
		bound := rules[key{binding.RoleRef.Kind, binding.Namespace, binding.RoleRef.Name}]
		require.NotEmpty(t, bound, "%s refers to nothing that is installed", binding.Name)
		require.Len(t, binding.Subjects, 1)
		require.Equal(t, s.Namespace, binding.Subjects[0].Namespace)
		for _, rule := range bound {
			require.Empty(t, rule.ResourceNames)
			require.Empty(t, rule.NonResourceURLs)
			add(given, binding.Subjects[0].Name, where, rule.APIGroups, rule.Resources, rule.Verbs)
		}
	}
	return given
}

// as returns a client with the rights of a service account in the namespace of a site.
func as(s *site.Site, account string) client.Client {
	s.T.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(s.T, err)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + s.Namespace + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + s.Namespace, "system:authenticated"}}
	c, err := client.New(config, client.Options{})
	require.NoError(s.T, err)
	return c
}

// rightsOfAccount returns the rights that the API server gives an account in a namespace.
func rightsOfAccount(s *site.Site, account, where, namespace string) map[right]bool {
	s.T.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{
		Namespace: namespace}}
	require.NoError(s.T, as(s, account).Create(s.T.Context(), review))
	given := map[right]bool{}
	for _, rule := range review.Status.ResourceRules {
		add(given, account, where, rule.APIGroups, rule.Resources, rule.Verbs)
	}
	return given
}

// TestAcceptSecurity_LeastRights compares the rights of an installation with --rbac least with the table in SECURITY.md:
// those of its roles, and what the API server lets its accounts do in other namespaces. Volumes of others are not open to
// them unless the operator grants that.
func TestAcceptSecurity_LeastRights(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	shop, victim := s.Workload(0), s.Workload(1)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: victim},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{"storage": resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: victim, Name: "data"},
			StorageClassName:       "none",
		}}
	require.NoError(t, s.Client.Create(t.Context(), volume))
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), volume) })
	install := []string{"install", "--no-default-backup-location", "--no-secret", "--use-node-agent", "--rbac", "least",
		"--rbac-namespaces", shop}
	_, errs, err := s.Run(append(install, "--features", "EnableCSI")...)
	require.Error(t, err)
	require.Contains(t, errs, "grant them with --rbac-all-volumes")

	for _, with := range [][]string{nil, {"--rbac-all-volumes"}, {"--rbac-all-volumes", "EnableCSI"}} {
		args := append(slices.Clone(install), with...)
		if len(with) > 1 {
			args = append(slices.Clone(install), with[0], "--features", with[1])
		}
		table := rightsOfTable(t, with...)
		require.Equal(t, table, rightsOfRoles(t, s, s.Must(append(args, "--dry-run", "-o", "json")...)), with)
		s.Must(append(args, "--apply")...)
		for _, account := range []string{"velero", "node-agent"} {
			anyone := rightsOfAccount(s, "default", inCluster, victim)
			given := rightsOfAccount(s, account, inCluster, victim)
			maps.DeleteFunc(given, func(one right, _ bool) bool { one.account = "default"; return anyone[one] })
			want := maps.Clone(table)
			maps.DeleteFunc(want, func(one right, _ bool) bool { return one.account != account || one.where != inCluster })
			require.Equal(t, want, given, "%s outside of its namespaces, %v", account, with)

			c := as(s, account)
			for what, err := range map[string]error{
				"read secrets": c.List(t.Context(), new(corev1.SecretList), client.InNamespace(victim)),
				"read pods":    c.List(t.Context(), new(corev1.PodList), client.InNamespace(victim)),
				"change an object": c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: victim,
					Name: "item-a"}}),
				"delete a volume": c.Delete(t.Context(), volume.DeepCopy()),
			} {
				require.True(t, apierrors.IsForbidden(err), "%s of others as %s: %v", what, account, err)
			}
			patch := client.RawPatch("application/merge-patch+json",
				[]byte(`{"spec":{"claimRef":{"namespace":"`+shop+`"}}}`))
			err = c.Patch(t.Context(), volume.DeepCopy(), patch, client.DryRunAll)
			if want[right{account, inCluster, "", "persistentvolumes", "patch"}] {
				require.NoError(t, err, "%s, %v", account, with)
			} else {
				require.True(t, apierrors.IsForbidden(err), "%s, %v: %v", account, with, err)
			}
		}
	}
}
