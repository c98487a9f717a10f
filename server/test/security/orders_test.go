package security_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// noOrders are the labels and annotations of the source that may come from an archive, an action or a modifier, with the
// reason why nothing is deleted, changed, counted or waited for because of them.
var noOrders = map[string]string{
	"velero.io/backup-name":  "the restore sets it",
	"velero.io/restore-name": "the restore sets it",

	"cleat.dev/rehearsal-check":           "a user writes it: a command in the pod itself",
	"cleat.dev/rehearsal-check-container": "likewise",
	"cleat.dev/rehearsal-check-timeout":   "likewise",
	"cleat.dev/rehearse":                  "of a Schedule, which a restore includes by name",
	"cleat.dev/priority":                  "likewise",
	"cleat.dev/write-once":                "of a BackupStorageLocation, likewise",
	"cleat.dev/data-mover":                "of a BackupRepository, likewise",
	"cleat.dev/stored-content":            "an action overwrites it, and reads it beside the UID of its restore",
	"cleat.dev/node-agent":                "pods of a DaemonSet need it; who creates pods beside the server may do all",
	"cleat.dev/takes-over":                "likewise, of a Deployment",

	"velero.io/exclude-from-backup": "a user writes it: the object stays out of backups",
	"velero.io/skip-from-backup":    "likewise, by an action",
	"velero.io/restore-status":      "a user writes it: about the object itself",
	"velero.io/volume-group":        "a user writes it: claims of a namespace of which snapshots are taken together",

	"backup.velero.io/must-include-additional-items": "of an action of a backup, as in Velero",
	"backup.velero.io/backup-volumes":                "a user writes it: volumes of the pod itself",
	"backup.velero.io/backup-volumes-excludes":       "likewise",
	"backup.velero.io/skipped-no-csi-pv":             "says something about a claim",
	"init.hook.restore.velero.io/container-image":    "a user writes it: a container of the pod itself",
	"init.hook.restore.velero.io/container-name":     "likewise",
	"init.hook.restore.velero.io/command":            "likewise",
	"velero.io/csi-volumesnapshot-class":             "a user writes it: the class of snapshots of a claim or a driver",
	"velero.io/csi-volumegroupsnapshot-class":        "likewise",
	"velero.io/csi-volume-group-snapshot-class":      "likewise",

	"velero.io/volume-snapshot-name":            "the name of a snapshot in the backup, for the action of the claim",
	"velero.io/csi-volumesnapshot-handle":       "describes a snapshot, for plugins of restores",
	"velero.io/csi-volumesnapshot-restore-size": "likewise",
	"velero.io/csi-driver-name":                 "likewise",
	"velero.io/csi-vsc-deletion-policy":         "likewise",
	"velero.io/csi-volumegroupsnapshot-handle":  "likewise",
	"velero.io/original-pv-name":                "says how a volume was called",
	"velero.io/dynamic-pv-restore":              "a selector of claims, of Kubernetes",
	"velero.io/pvc-name":                        "of loads, which are signed, and never restored",

	"velero.io/plugin-config":                         "the configuration of a plugin; who writes beside the server may do all",
	"velero.io/schedule-name":                         "of Backups and Restores, which are never restored",
	"velero.io/storage-location":                      "likewise, and of repositories, which a restore includes by name",
	"velero.io/volume-namespace":                      "of repositories",
	"velero.io/repository-type":                       "likewise",
	"velero.io/global-backup-volume-policy-configmap": "of Backups",
	"velero.io/source-cluster-k8s-gitversion":         "likewise",
	"velero.io/source-cluster-k8s-major-version":      "likewise",
	"velero.io/source-cluster-k8s-minor-version":      "likewise",
	"velero.io/resource-timeout":                      "of Backups and Restores",
	"velero.io/pod-volume-timeout":                    "likewise",
}

// ownName matches the names of labels, annotations and finalizers of ours and of Velero.
var ownName = regexp.MustCompile(`^(?:[a-z]+\.)*(?:cleat\.dev|velero\.io)/[a-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?$`)

// namesOfSource returns the names of labels and annotations, and those of finalizers, that constants of the source have.
// A test of the documents makes sure that it has no others.
func namesOfSource(t *testing.T) (names, finalizers []string) {
	t.Helper()
	const root = "../../.."
	for _, room := range []string{"framework", "plugins", "versioning", "server"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, room), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				if name := entry.Name(); name == "testdata" || name == "bench" || name == "test" && room == "server" {
					return fs.SkipDir
				}
				return nil
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				constant, is := n.(*ast.ValueSpec)
				if !is || len(constant.Values) != 1 || len(constant.Names) != 1 {
					return true
				}
				literal, is := constant.Values[0].(*ast.BasicLit)
				if !is || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				of := strings.ToLower(constant.Names[0].Name)
				switch {
				case err != nil || !ownName.MatchString(text):
				case strings.HasSuffix(of, "finalizer"):
					finalizers = append(finalizers, text)
				case strings.Contains(of, "label") || strings.Contains(of, "annotation") || strings.HasSuffix(of, "key"):
					names = append(names, text)
				}
				return true
			})
			return nil
		}))
	}
	for _, list := range []*[]string{&names, &finalizers} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	require.Greater(t, len(names), 100)
	require.Greater(t, len(finalizers), 4)
	for name := range noOrders {
		require.Contains(t, names, name, "the source has it no longer")
	}
	return names, finalizers
}

// TestAcceptSecurity_LabelsAreNoOrders brings all labels, annotations, finalizers and owners that the programs act upon
// into a cluster, by archives, actions and resource modifiers, for new and existing objects. None of them arrives. A
// namespace that has the labels of a rehearsal nevertheless is not deleted, nor are its volumes.
func TestAcceptSecurity_LabelsAreNoOrders(t *testing.T) {
	t.Parallel()
	names, finalizers := namesOfSource(t)
	entries := map[string]string{}
	for _, name := range names {
		entries[name] = "false"
	}
	all := map[string]any{
		"labels": entries, "annotations": entries, "finalizers": finalizers,
		"ownerReferences": []map[string]any{
			{"apiVersion": "velero.io/v1", "kind": "Restore", "name": "new", "uid": "1"},
			{"apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "name": "d", "uid": "2", "controller": true},
			{"apiVersion": "cleat.dev/v1", "kind": "Any", "name": "a", "uid": "3"},
		},
	}
	encoded, err := json.Marshal(all)
	require.NoError(t, err)

	s := site.New(t, "cleat.dev/file")
	plugins := filepath.Join(t.TempDir(), "plugins")
	programs.Copy(t, "server/test/security/testdata/labeller", filepath.Join(plugins, "labeller"))
	s.Environment = []string{"LABELLER_METADATA=" + string(encoded)}
	server := s.Serve("--plugin-dir", plugins)
	s.Available()
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	f := &forger{Site: s, id: s.Namespace, archive: filepath.Join(s.BucketDir, "backups", "whole", "whole.tar.gz")}
	f.honest, err = os.ReadFile(f.archive)
	require.NoError(t, err)
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: %s, name: rules}, data: {rules: %q}}`, s.Namespace,
		fmt.Sprintf(`{"version":"v1","resourceModifierRules":[{"conditions":{"groupResource":"configmaps","resourceNameRegex":"by-modifier$"},`+
			`"mergePatches":[{"patchData":%q}]}]}`, `{"metadata":`+string(encoded)+`}`)))

	// object returns an object of the archive, with all that is planted if it comes by the archive.
	object := func(kind, namespace, name, by, more string) string {
		metadata := map[string]any{"name": name}
		if by == "archive" {
			maps.Copy(metadata, all)
		}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		text, err := json.Marshal(metadata)
		require.NoError(t, err)
		return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":%s%s}`, kind, text, more)
	}
	volume := fmt.Sprintf(`,"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"storageClassName":"%s",`+
		`"persistentVolumeReclaimPolicy":"Retain","hostPath":{"path":"/tmp/%s"}}`, f.id, f.id)
	planted := []forgery{
		{"resources/namespaces/cluster/ID-new.json", object("Namespace", "", f.id+"-new", "archive", "")},
		{"resources/namespaces/cluster/ID-existing.json", object("Namespace", "", f.id+"-existing", "archive", "")},
		{"resources/persistentvolumes/cluster/ID.json", object("PersistentVolume", "", f.id, "archive", volume)},
	}
	t.Cleanup(func() { s.DropVolume(f.id) })
	s.Put(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + f.id + `-existing}}`)
	mine := map[string]string{"cleat.dev/copied-from": "mine"} // of the object in the cluster, and stays
	for _, by := range []string{"archive", "modifier", "action"} {
		for _, in := range []string{"new", "existing"} {
			namespace, name := f.id+"-"+in, "by-"+by
			planted = append(planted, forgery{"resources/configmaps/namespaces/ID-" + in + "/" + name + ".json",
				object("ConfigMap", namespace, name, by, `,"data":{"a":"2"}`)})
			if in == "existing" {
				require.NoError(t, s.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: name, Labels: mine, Annotations: mine}, Data: map[string]string{"a": "1"}}))
			}
		}
	}
	f.forge(planted...)
	yes := true
	_, messages := f.restored("new", velerov1.RestoreSpec{
		IncludedNamespaces: []string{"ID-new", "ID-existing"}, IncludeClusterResources: &yes,
		ExistingResourcePolicy: velerov1.PolicyTypeUpdate,
		ResourceModifier:       &velerov1.TypedLocalObjectReference{Kind: "ConfigMap", Name: "rules"},
	})

	kept := map[string]string{}
	for name := range noOrders {
		kept[name] = "false"
	}
	check := func(kind, namespace, name string) {
		t.Helper()
		live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, live), messages)
		require.Empty(t, live.GetOwnerReferences())
		for _, finalizer := range finalizers {
			require.NotContains(t, live.GetFinalizers(), finalizer)
		}
		labels, annotations := maps.Clone(kept), maps.Clone(kept)
		if kind != "Namespace" {
			labels[velerov1.BackupNameLabel], labels[velerov1.RestoreNameLabel] = "whole", "new"
		}
		if kind == "Namespace" && strings.HasSuffix(name, "existing") { // they say who has created it
			delete(labels, velerov1.BackupNameLabel)
			delete(labels, velerov1.RestoreNameLabel)
		}
		if kind == "ConfigMap" {
			data, _, _ := unstructured.NestedString(live.Object, "data", "a")
			require.Equal(t, "2", data, "it is restored")
			if strings.HasSuffix(namespace, "existing") {
				maps.Copy(labels, mine)
				maps.Copy(annotations, mine)
			}
		}
		for what, found := range map[string][2]map[string]string{
			"labels": {labels, live.GetLabels()}, "annotations": {annotations, live.GetAnnotations()},
		} {
			maps.DeleteFunc(found[1], func(key, _ string) bool { return !ownName.MatchString(key) })
			require.Equal(t, found[0], found[1], "%s of %s %s/%s", what, kind, namespace, name)
		}
	}
	for _, in := range []string{"new", "existing"} {
		for _, by := range []string{"archive", "modifier", "action"} {
			check("ConfigMap", f.id+"-"+in, "by-"+by)
		}
		check("Namespace", "", f.id+"-"+in)
	}
	check("PersistentVolume", "", f.id)
	server.Kill()
	sweptByProofOnly(s)
}

// sweptByProofOnly has namespaces with the labels of rehearsals. The server deletes the one that carries its proof, and
// neither the others nor their volumes.
func sweptByProofOnly(s *site.Site) {
	s.T.Helper()
	ctx := s.T.Context()
	var secret corev1.Secret
	require.NoError(s.T, s.Client.Get(ctx, s.Key(signing.SecretName), &secret))
	key := signing.NewKey(secret.Data["key"])
	const gone = "d2a9cf0e-0000-4000-8000-000000000000" // the UID of a Restore that does not exist
	forged := &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "forged"},
		Spec:       velerov1.RestoreSpec{BackupName: "whole"},
		Status:     velerov1.RestoreStatus{Phase: velerov1.RestorePhaseFailedValidation},
	}
	names := map[string]string{}
	for _, kind := range []string{"labels", "replayed", "state", "proven"} {
		names[kind] = s.Namespace + "-of-" + kind
	}
	forged.Annotations = map[string]string{velerov1.RehearsalAnnotation: velerov1.RehearsalCleaning,
		velerov1.RehearsalStateAnnotation: fmt.Sprintf(`{"namespaces":{"a":%q}}`, names["state"])}
	require.NoError(s.T, s.Client.Create(ctx, forged))
	plant := func(kind string, restore, former types.UID) {
		s.T.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names[kind], Labels: map[string]string{
			velerov1.RehearsalLabel: string(restore), "cleat.dev/rehearsal-of": s.Namespace}}}
		require.NoError(s.T, s.Client.Create(ctx, namespace))
		before := namespace.DeepCopy()
		uid := namespace.UID
		if former != "" {
			uid = former
		}
		namespace.Annotations = map[string]string{"cleat.dev/rehearsal-proof": "AAAA"}
		if kind == "replayed" || kind == "proven" {
			namespace.Annotations["cleat.dev/rehearsal-proof"] = key.Sign("namespace of a rehearsal", s.Namespace,
				string(restore), namespace.Name, string(uid))
		}
		require.NoError(s.T, s.Client.Patch(ctx, namespace, client.MergeFrom(before)))
		pv := s.BoundClaim(namespace.Name, namespace.Name, "c", "Retain")
		s.Change(pv, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, velerov1.RehearsalLabel, restore))
	}
	plant("labels", gone, "")
	plant("replayed", gone, "of-one-that-was-deleted")
	plant("state", forged.UID, "")
	plant("proven", gone, "")

	s.Serve()
	s.Eventually("the namespace with the proof is deleted, and the forged rehearsal has ended",
		func(ctx context.Context) (bool, error) {
			var namespace corev1.Namespace
			err := s.Client.Get(ctx, client.ObjectKey{Name: names["proven"]}, &namespace)
			if !apierrors.IsNotFound(err) && (err != nil || namespace.DeletionTimestamp == nil) {
				return false, err
			}
			err = s.Client.Get(ctx, client.ObjectKeyFromObject(forged), forged)
			return forged.Annotations[velerov1.RehearsalAnnotation] == velerov1.RehearsalDone, err
		})
	for _, kind := range []string{"labels", "replayed", "state"} {
		var namespace corev1.Namespace
		require.NoError(s.T, s.Client.Get(ctx, client.ObjectKey{Name: names[kind]}, &namespace))
		require.Nil(s.T, namespace.DeletionTimestamp, kind)
		var pv corev1.PersistentVolume
		require.NoError(s.T, s.Client.Get(ctx, client.ObjectKey{Name: names[kind]}, &pv))
		require.Equal(s.T, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy, kind)
	}
}
