package nodeagent_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/test/csidriver"
	"github.com/cleat-dev/cleat/server/test/loads"
)

// creator returns a client of an account that may only create loads in the namespace of the site.
func (s *site) creator() client.Client {
	s.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "creator"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "creator"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"velero.io"}, Resources: []string{"datauploads", "datadownloads", "podvolumebackups",
				"podvolumerestores"}, Verbs: []string{"create"},
		}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "creator"}, RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "Role", Name: "creator",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "creator"}},
	}
	for _, object := range []client.Object{account, role, binding} {
		require.NoError(s.t, s.client.Create(s.t.Context(), object))
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.plane.Get(s.t).AccountKubeconfig(s.t, s.namespace, "creator"))
	require.NoError(s.t, err)
	scheme, err := app.Scheme()
	require.NoError(s.t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(s.t, err)
	return c
}

// TestAcceptSecurity_Loads has an account that may only create loads. It tries to delete and expose foreign snapshots,
// and to move volumes of pods. The agent refuses each load with the reason.
func TestAcceptSecurity_Loads(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t, 1)
	v.claim("data", corev1.PersistentVolumeFilesystem)
	require.NoError(t, os.WriteFile(filepath.Join(v.dir(v.shop, "data"), "hold"), nil, 0o600))
	important := v.important()
	attacker := v.creator()
	v.agents()

	// A load that a running backup has created, whose labels, owner and signature can be copied.
	v.take("genuine", "data", "chosen")
	genuine := v.uploadOf("genuine", "data")
	v.create(genuine)
	v.awaitPhase("DataUpload/genuine", velerov1.LoadPhaseInProgress)
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKeyFromObject(genuine), genuine))

	naming := func(name string) *velerov2alpha1.DataUpload {
		upload := v.uploadOf(name, "data")
		upload.Namespace, upload.Labels = v.namespace, nil
		upload.Spec.CSISnapshot.VolumeSnapshot = important.Name
		return upload
	}
	cancelled, exposing, replayed := naming("cancelled"), naming("exposing"), naming("replayed")
	cancelled.Spec.Cancel = true
	replayed.Labels, replayed.Annotations, replayed.OwnerReferences = genuine.Labels, genuine.Annotations,
		genuine.OwnerReferences
	replayed.Spec.Cancel = true
	written := naming("written")
	written.Labels, written.OwnerReferences = genuine.Labels, genuine.OwnerReferences
	written.Status.Phase, written.Status.AcceptedByNode, written.Status.Node = velerov1.LoadPhaseInProgress, v.nodes[0],
		v.nodes[0]
	nobodys := v.backup("nobodys", v.nodes[0])
	nobodys.Namespace = v.namespace
	for _, load := range []client.Object{cancelled, exposing, replayed, written, nobodys} {
		require.NoError(t, attacker.Create(t.Context(), load))
	}
	for _, key := range []string{"DataUpload/cancelled", "DataUpload/exposing", "DataUpload/replayed",
		"DataUpload/written", "PodVolumeBackup/nobodys"} {
		require.Contains(t, v.awaitPhase(key, velerov1.LoadPhaseFailed).message,
			"refused: it was not created for a backup or restore of this server", key)
	}
	require.ErrorContains(t, attacker.Get(t.Context(), client.ObjectKey{Namespace: v.namespace, Name: signing.SecretName},
		new(corev1.Secret)), "forbidden")

	// Signed loads of a backup that has ended, of a snapshot of another backup, and of volumes that come from objects
	// of the cluster.
	ended := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "ended"}}
	require.NoError(t, v.client.Create(t.Context(), ended))
	require.NoError(t, v.client.Patch(t.Context(), ended, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"phase":"Completed"}}`))))
	late, foreign := v.backup("late", v.nodes[0]), naming("foreign")
	require.NoError(t, loads.Sign(t.Context(), v.client, ended, late))
	require.NoError(t, v.client.Create(t.Context(), late))
	require.Contains(t, v.awaitPhase("PodVolumeBackup/late", velerov1.LoadPhaseFailed).message,
		`Backup ended is "Completed"`)
	foreign.Labels = map[string]string{velerov1.AsyncOperationIDLabel: "of-foreign"}
	v.create(foreign)
	require.Contains(t, v.awaitPhase("DataUpload/foreign", velerov1.LoadPhaseFailed).message,
		"was not taken for this load")
	v.neverMoves()

	now := new(snapshotv1.VolumeSnapshot)
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKeyFromObject(important), now))
	require.Nil(t, now.DeletionTimestamp)
	require.Equal(t, important.UID, now.UID)
	content := new(snapshotv1.VolumeSnapshotContent)
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKey{Name: *now.Status.BoundVolumeSnapshotContentName},
		content))
	require.Equal(t, snapshotv1.VolumeSnapshotContentRetain, content.Spec.DeletionPolicy)
	for _, load := range []string{"cancelled", "exposing", "replayed", "written", "foreign"} {
		for _, made := range []client.Object{new(corev1.PersistentVolumeClaim), new(corev1.Pod),
			new(snapshotv1.VolumeSnapshot)} {
			require.Error(t, v.client.Get(t.Context(), client.ObjectKey{Namespace: v.namespace, Name: load}, made),
				"nothing was made for it")
		}
	}

	// The genuine load continues, and no stored data contains the key.
	require.NoError(t, v.client.Get(t.Context(), client.ObjectKeyFromObject(genuine), genuine))
	require.Equal(t, velerov1.LoadPhaseInProgress, genuine.Status.Phase)
	text, err := json.Marshal(genuine)
	require.NoError(t, err)
	require.NotContains(t, string(text), velerov1.LoadKeyAnnotation)
}

// important returns the snapshot of a user, which is bound and retained.
func (v *volumeSite) important() *snapshotv1.VolumeSnapshot {
	v.t.Helper()
	claim, class := "data", v.snapshotClassOf(snapshotv1.VolumeSnapshotContentRetain)
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: "important"},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim},
			VolumeSnapshotClassName: &class},
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), vs))
	v.eventually("the snapshot is ready", func() (bool, error) {
		err := v.client.Get(v.t.Context(), client.ObjectKeyFromObject(vs), vs)
		return vs.Status != nil && vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse, err
	})
	return vs
}

// snapshotClassOf creates a class of snapshots with a deletion policy.
func (v *volumeSite) snapshotClassOf(policy snapshotv1.DeletionPolicy) string {
	v.t.Helper()
	class := &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: v.shop + "-kept"}, Driver: csidriver.Name,
		DeletionPolicy: policy}
	require.NoError(v.t, v.client.Create(v.t.Context(), class))
	v.t.Cleanup(func() { _ = v.client.Delete(context.Background(), class) })
	return class.Name
}

// neverMoves shows that the agent refuses loads of the volumes of a pod that come from objects of the cluster,
// although they are signed.
func (v *volumeSite) neverMoves() {
	v.t.Helper()
	v.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "map"}})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Spec: corev1.PodSpec{
			NodeName: v.nodes[0], AutomountServiceAccountToken: new(false), Containers: []corev1.Container{
				{Name: "app", Image: "app"},
			},
			Volumes: []corev1.Volume{
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}},
				{Name: "map", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "map"}},
				}},
				{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"},
				}}}}},
				{Name: "downward", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}},
			},
		},
	}
	v.create(pod)
	pod.Status.Phase = corev1.PodRunning
	require.NoError(v.t, v.client.Status().Update(v.t.Context(), pod))
	for i := range pod.Spec.Volumes {
		load := v.backup(pod.Spec.Volumes[i].Name, v.nodes[0])
		load.Spec.Pod.Name, load.Spec.Pod.UID, load.Spec.Volume = pod.Name, pod.UID, load.Name
		v.create(load)
		require.Contains(v.t, v.awaitPhase("PodVolumeBackup/"+load.Name, velerov1.LoadPhaseFailed).message,
			"what is in it comes from objects of the cluster")
	}
}

// hidesKey requires that nothing in the bucket and in the namespace contains the key of a run, or the secret from
// which it is derived.
func (v *volumeSite) hidesKey(kind string, run client.Object) {
	v.t.Helper()
	secret := new(corev1.Secret)
	require.NoError(v.t, v.client.Get(v.t.Context(), client.ObjectKey{Namespace: v.namespace, Name: signing.SecretName},
		secret))
	key := loadproof.Derive(signing.NewKey(secret.Data["key"]).Derive("loads"), kind, string(run.GetUID()))
	hides := func(where string, text []byte) {
		require.NotContains(v.t, string(text), key, where)
		require.NotContains(v.t, string(text), velerov1.LoadKeyAnnotation, where)
		require.NotContains(v.t, string(text), base64.StdEncoding.EncodeToString(secret.Data["key"]), where)
	}
	require.NoError(v.t, filepath.WalkDir(v.store, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if unpacked, bad := gzip.NewReader(bytes.NewReader(text)); bad == nil {
			text, err = io.ReadAll(unpacked)
		}
		hides(path, text)
		return err
	}))
	for _, list := range []client.ObjectList{
		new(velerov1.BackupList), new(velerov1.RestoreList), new(velerov2alpha1.DataUploadList),
		new(velerov2alpha1.DataDownloadList), new(corev1.ConfigMapList),
	} {
		require.NoError(v.t, v.client.List(v.t.Context(), list, client.InNamespace(v.namespace)))
		text, err := json.Marshal(list)
		require.NoError(v.t, err)
		hides(fmt.Sprintf("%T", list), text)
	}
}
