package security_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
)

// forgery is an entry of an archive that no server has written.
type forgery struct {
	path string
	// JSON; NS is replaced with the namespace of the server, SHOP with the namespace of the backup, ID with a word of
	// the test.
	object string
}

// forger rewrites the archive of a backup, as an attacker with write access to the bucket can.
type forger struct {
	*site.Site
	id      string
	archive string // file
	honest  []byte
}

func (f *forger) fill(text string) string {
	return strings.NewReplacer("NS", f.Namespace, "SHOP", f.Shop, "ID", f.id).Replace(text)
}

// forge replaces the archive with the original one plus entries.
func (f *forger) forge(entries ...forgery) {
	f.T.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(f.honest))
	require.NoError(f.T, err)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	from, to := tar.NewReader(unzipped), tar.NewWriter(zip)
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(f.T, err)
		require.NoError(f.T, to.WriteHeader(header))
		_, err = io.Copy(to, from)
		require.NoError(f.T, err)
	}
	for _, entry := range entries {
		object := f.fill(entry.object)
		require.NoError(f.T, to.WriteHeader(&tar.Header{Name: f.fill(entry.path), Size: int64(len(object)), Mode: 0o644,
			Typeflag: tar.TypeReg}))
		_, err := io.WriteString(to, object)
		require.NoError(f.T, err)
	}
	require.NoError(f.T, errors.Join(to.Close(), zip.Close(), os.WriteFile(f.archive, out.Bytes(), 0o644)))
}

// restored restores the forged backup. It returns the objects that the restore has written, as "Kind namespace/name",
// and its messages.
func (f *forger) restored(name string, spec velerov1.RestoreSpec) (wrote []string, messages string) {
	f.T.Helper()
	spec.BackupName = "whole"
	mapping := map[string]string{}
	for from, to := range spec.NamespaceMapping {
		mapping[f.fill(from)] = f.fill(to)
	}
	spec.NamespaceMapping = mapping
	for i, name := range spec.IncludedNamespaces {
		spec.IncludedNamespaces[i] = f.fill(name)
	}
	require.NoError(f.T, f.Client.Create(f.T.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}, Spec: spec}))
	r := f.AwaitEndOfRestore(name)
	messages = r.Status.FailureReason + "\n" + strings.Join(r.Status.ValidationErrors, "\n") + "\n"
	if r.Status.Phase == velerov1.RestorePhaseFailed || r.Status.Phase == velerov1.RestorePhaseFailedValidation {
		return nil, messages
	}
	list := site.Gzipped[map[string][]string](f.Site, "restores/"+name+"/restore-"+name+"-resource-list.json.gz")
	for kind, objects := range list {
		for _, object := range objects {
			if id, ok := strings.CutSuffix(object, "(created)"); ok {
				wrote = append(wrote, kind[strings.LastIndex(kind, "/")+1:]+" "+id)
			} else if id, ok := strings.CutSuffix(object, "(updated)"); ok {
				wrote = append(wrote, kind[strings.LastIndex(kind, "/")+1:]+" "+id)
			}
		}
	}
	slices.Sort(wrote)
	found := site.Gzipped[results.Results](f.Site, "restores/"+name+"/restore-"+name+"-results.gz")
	for _, of := range []results.Result{found.Errors, found.Warnings} {
		messages += strings.Join(slices.Concat(of.Velero, of.Cluster), "\n") + "\n"
		for _, in := range of.Namespaces {
			messages += strings.Join(in, "\n") + "\n"
		}
	}
	return wrote, messages
}

const (
	binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"ID-NAME"},` +
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"mallory"}]}`
	deletion = `{"apiVersion":"velero.io/v1","kind":"DeleteBackupRequest","metadata":{"name":"evil","namespace":"IN"},"spec":{"backupName":"precious"}}`
	movement = `{"apiVersion":"velero.io/v1","kind":"PodVolumeBackup","metadata":{"name":"evil","namespace":"IN"},"spec":{"node":"n",` +
		`"backupStorageLocation":"default","repoIdentifier":"r","pod":{"namespace":"kube-system","name":"p"},"volume":"v"}}`
	schedule = `{"apiVersion":"velero.io/v1","kind":"Schedule","metadata":{"name":"evil","namespace":"IN"},"spec":{"schedule":"0 0 1 1 *","template":{}}}`
	location = `{"apiVersion":"velero.io/v1","kind":"BackupStorageLocation","metadata":{"name":"evil","namespace":"IN"},` +
		`"spec":{"provider":"cleat.dev/file","config":{"path":"/"},"objectStorage":{"bucket":"tmp"}}}`
	leader = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"cleat-server","namespace":"IN"},"spec":{"holderIdentity":"mallory","leaseDurationSeconds":99999}}`
	lease  = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"evil","namespace":"IN"},"spec":{"holderIdentity":"mallory"}}`
	plain  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"IN"},"data":{"a":"b"}}`
	record = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil","namespace":"IN","labels":{"cleat.dev/operations":"backup"}},"data":{"a":"b"}}`
)

func called(object, name string) string { return strings.ReplaceAll(object, "NAME", name) }

func inside(object, namespace string) string {
	return strings.ReplaceAll(object, `"IN"`, `"`+namespace+`"`)
}

// TestAcceptSecurity_Paths restores archives in which an attacker with write access to the bucket has added two kinds
// of entries: entries whose paths pass the filters and protections of a restore, although their objects are different;
// and objects that would trigger actions of the server.
func TestAcceptSecurity_Paths(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	s.BeginBackupOf("precious", s.Shop)
	s.AwaitBackup("precious", velerov1.BackupPhaseCompleted)
	require.NoError(t, s.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "rules"},
		Data: map[string]string{"rules": `version: v1
resourceModifierRules:
- conditions: {groupResource: configmaps, resourceNameRegex: "^item-a$"}
  mergePatches:
  - patchData: '{"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest", "data": null, "spec": {"backupName": "precious"}}'
- conditions: {groupResource: configmaps, resourceNameRegex: "^item-b$"}
  mergePatches:
  - patchData: '{"apiVersion": "v1", "kind": "Secret", "data": null}'
`},
	}))
	f := &forger{Site: s, id: s.Namespace, archive: filepath.Join(s.BucketDir, "backups", "whole", "whole.tar.gz")}
	var err error
	f.honest, err = os.ReadFile(f.archive)
	require.NoError(t, err)

	yes := true
	for _, row := range []struct { //nolint:paralleltest // they restore the same backup
		name    string
		entries []forgery
		spec    velerov1.RestoreSpec
		writes  []string // in addition to the objects of each namespace
		says    []string
	}{
		{
			name: "exclusion", // past an exclusion of bindings
			entries: []forgery{
				{"resources/clusterrolebindings/cluster/ID-a.json", called(binding, "a")},
				{"resources/clusterroles.rbac.authorization.k8s.io/cluster/ID-c.json", called(binding, "c")},
				{"resources/roles.rbac.authorization.k8s.io/cluster/ID-d.json", called(binding, "d")},
				{"resources/namespaces/cluster/ID-e.json", called(binding, "e")},
			},
			spec: velerov1.RestoreSpec{
				ExcludedResources: []string{"clusterrolebindings"}, IncludeClusterResources: &yes,
				NamespaceMapping: map[string]string{"SHOP": "ID-1"},
			},
			writes: []string{"ConfigMap ID-1/item-a", "ConfigMap ID-1/item-b"},
			says: []string{
				`"resources/clusterrolebindings/cluster/ID-a.json"`,
				`"resources/clusterroles.rbac.authorization.k8s.io/cluster/ID-c.json"`,
				`"resources/roles.rbac.authorization.k8s.io/cluster/ID-d.json"`,
				`"resources/namespaces/cluster/ID-e.json"`, "ClusterRoleBinding",
			},
		},
		{
			name:    "spelling", // of a resource that differs from its path
			entries: []forgery{{"resources/clusterrolebindings./cluster/ID-f.json", called(binding, "f")}},
			spec: velerov1.RestoreSpec{ExcludedResources: []string{"clusterrolebindings"}, IncludeClusterResources: &yes,
				NamespaceMapping: map[string]string{"SHOP": "ID-2"}},
			says: []string{`"resources/clusterrolebindings./cluster/ID-f.json"`, "unsafe path"},
		},
		{
			name: "capitals", // clients of the API server convert them to lower case
			entries: []forgery{{"resources/ClusterRoleBindings.rbac.authorization.k8s.io/cluster/ID-b.json",
				called(binding, "b")}},
			spec: velerov1.RestoreSpec{ExcludedResources: []string{"clusterrolebindings"}, IncludeClusterResources: &yes,
				NamespaceMapping: map[string]string{"SHOP": "ID-7"}},
			says: []string{`"resources/ClusterRoleBindings.rbac.authorization.k8s.io/cluster/ID-b.json"`,
				`"clusterrolebindings.rbac.authorization.k8s.io"`},
		},
		{
			name: "requests", // under paths without their groups
			entries: []forgery{
				{"resources/deletebackuprequests/namespaces/NS/evil.json", inside(deletion, "NS")},
				{"resources/podvolumebackups/namespaces/NS/evil.json", inside(movement, "NS")},
				{"resources/leases/namespaces/NS/evil.json", inside(lease, "NS")},
			},
			spec:   velerov1.RestoreSpec{NamespaceMapping: map[string]string{"SHOP": "ID-3"}},
			writes: []string{"ConfigMap ID-3/item-a", "ConfigMap ID-3/item-b"},
			says: []string{
				`"resources/deletebackuprequests/namespaces/NS/evil.json"`, `"resources/podvolumebackups/namespaces/NS/evil.json"`,
				`"resources/leases/namespaces/NS/evil.json"`,
			},
		},
		{
			name: "mapping", // into the namespace of the server
			entries: []forgery{
				{"resources/deletebackuprequests/namespaces/SHOP/evil.json", inside(deletion, "SHOP")},
				{"resources/leases/namespaces/SHOP/evil.json", inside(lease, "SHOP")},
				{"resources/schedules.velero.io/namespaces/SHOP/evil.json", inside(schedule, "SHOP")},
				{"resources/backupstoragelocations.velero.io/namespaces/SHOP/evil.json", inside(location, "SHOP")},
				{"resources/configmaps/namespaces/SHOP/evil.json", inside(record, "SHOP")},
				{"resources/configmaps/namespaces/SHOP/cleat-node-agents.json", inside(called(plain, "cleat-node-agents"), "SHOP")},
			},
			spec:   velerov1.RestoreSpec{NamespaceMapping: map[string]string{"SHOP": "NS"}},
			writes: []string{"ConfigMap NS/item-a", "ConfigMap NS/item-b"},
			says: []string{
				`"resources/deletebackuprequests/namespaces/SHOP/evil.json"`, `"resources/leases/namespaces/SHOP/evil.json"`,
				"1 backupstoragelocations.velero.io, 2 configmaps, 1 schedules.velero.io",
			},
		},
		{
			name:    "asked-for", // a schedule that the user includes by name
			entries: []forgery{{"resources/schedules.velero.io/namespaces/SHOP/evil.json", inside(schedule, "SHOP")}},
			spec: velerov1.RestoreSpec{NamespaceMapping: map[string]string{"SHOP": "NS"},
				IncludedResources: []string{"schedules.velero.io"}},
			writes: []string{"Schedule NS/evil"},
		},
		{
			name: "modifiers", // they turn ConfigMaps into objects that are never restored, and into excluded ones
			spec: velerov1.RestoreSpec{
				NamespaceMapping: map[string]string{"SHOP": "ID-4"}, ExcludedResources: []string{"secrets"},
				ResourceModifier: &velerov1.TypedLocalObjectReference{Kind: "ConfigMap", Name: "rules"},
			},
			says: []string{"1 deletebackuprequests.velero.io", "one of secrets, which the restore excludes"},
		},
		{
			name: "namespaces", // their paths have other namespaces
			entries: []forgery{
				{"resources/namespaces/namespaces/SHOP/ID-z.json",
					`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ID-z","namespace":"SHOP"}}`},
				{"resources/namespaces/cluster/ID-y.json",
					`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system"}}`},
			},
			spec: velerov1.RestoreSpec{
				IncludedNamespaces: []string{"SHOP", "ID-y"}, IncludeClusterResources: &yes, NamespaceMapping: map[string]string{
					"SHOP": "ID-5",
				},
			},
			writes: []string{"ConfigMap ID-5/item-a", "ConfigMap ID-5/item-b"},
			says:   []string{`"resources/namespaces/namespaces/SHOP/ID-z.json"`, `"resources/namespaces/cluster/ID-y.json"`},
		},
		{
			name:    "lease", // of the server itself
			entries: []forgery{{"resources/leases/namespaces/NS/cleat-server.json", inside(leader, "NS")}},
			spec: velerov1.RestoreSpec{NamespaceMapping: map[string]string{"SHOP": "ID-6"},
				ExistingResourcePolicy: velerov1.PolicyTypeUpdate},
			writes: []string{"ConfigMap ID-6/item-a", "ConfigMap ID-6/item-b"},
			says:   []string{`"resources/leases/namespaces/NS/cleat-server.json"`},
		},
	} {
		t.Run(row.name, func(t *testing.T) { //nolint:paralleltest // they restore the same backup
			f.forge(row.entries...)
			holder := f.leader()
			wrote, messages := f.restored(row.name, row.spec)
			wrote = slices.DeleteFunc(wrote, func(one string) bool { // the objects of each namespace
				return strings.HasSuffix(one, "/default") || strings.HasSuffix(one, "/kube-root-ca.crt") ||
					regexp.MustCompile("^Namespace "+f.id+"-[0-9]$").MatchString(one)
			})
			want := make([]string, 0, len(row.writes))
			for _, one := range row.writes {
				want = append(want, f.fill(one))
			}
			require.ElementsMatch(t, want, wrote)
			for _, text := range row.says {
				require.Contains(t, messages, f.fill(text))
			}
			require.Equal(t, holder, f.leader())
			require.Contains(t, s.Files("backups/precious"), "precious.tar.gz")
			var requests velerov1.DeleteBackupRequestList
			require.NoError(t, s.Client.List(t.Context(), &requests, client.InNamespace(s.Namespace)))
			require.Empty(t, requests.Items)
			require.True(t, apierrors.IsNotFound(s.Client.Get(t.Context(),
				client.ObjectKey{Namespace: f.id + "-4", Name: "item-b"}, &corev1.Secret{})))
		})
	}
}

// leader returns the holder of the server's lease.
func (f *forger) leader() string {
	f.T.Helper()
	var held coordinationv1.Lease
	require.NoError(f.T, f.Client.Get(f.T.Context(), f.Key("cleat-server"), &held))
	return *held.Spec.HolderIdentity
}
