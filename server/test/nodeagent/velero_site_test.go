package nodeagent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// The images of the real Velero on a node.
const (
	veleroImage    = "velero.invalid/velero:" + velero.Version
	awsPluginImage = "velero.invalid/velero-plugin-for-aws:v1"
)

// importVelero makes the images of Velero available on the node.
func (p *plane) importVelero(t *testing.T) *velero.Programs {
	t.Helper()
	cluster, of := p.Get(t), velero.Get(t)
	p.velero.do(t, func(ctx context.Context) error {
		copier, err := programs.Link("server/cmd/copy-plugins")
		if err != nil {
			return err
		}
		server, errServer := imageOf(map[string]string{"velero": of.Velero, "velero-restore-helper": of.Helper}, "/velero")
		plugin, errPlugin := imageOf(map[string]string{
			"copy-plugins": copier, "plugins/velero-plugin-for-aws": filepath.Join(of.PluginDir, "velero-plugin-for-aws"),
		}, "/copy-plugins", "/plugins", "/target")
		return errors.Join(errServer, errPlugin, pods.ImportImage(ctx, cluster, veleroImage, server),
			pods.ImportImage(ctx, cluster, awsPluginImage, plugin))
	})
	return of
}

// imageOf returns an image with files of the machine by their paths in the image.
func imageOf(files map[string]string, entrypoint ...string) (v1.Image, error) {
	layer, err := pods.Layer(files)
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: v1.Config{Entrypoint: entrypoint},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

// installVelero installs Velero with its node agent by its own command line, in a namespace of its own, with a bucket.
func (m *machine) installVelero(namespace string, in storage) *velero.Site {
	m.t.Helper()
	v := &velero.Site{Programs: onNode.importVelero(m.t), Kubeconfig: m.cluster.Kubeconfig, Namespace: namespace,
		WorkDir: m.t.TempDir()}
	credentials := filepath.Join(m.t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", in.AccessKey, in.SecretKey)
	require.NoError(m.t, os.WriteFile(credentials, []byte(text), 0o600))
	_, err := v.Run(m.t.Context(), "install", "--namespace", namespace, "--image", veleroImage, "--plugins",
		awsPluginImage, "--provider", "aws", "--bucket", in.bucket, "--secret-file", credentials,
		"--use-volume-snapshots=false",
		"--backup-location-config", "region="+in.Region+",s3ForcePathStyle=true,s3Url="+m.cluster.Node.S3Endpoint,
		"--use-node-agent", "--features", "EnableCSI", "--velero-pod-cpu-request", "0", "--velero-pod-cpu-limit", "0",
		"--velero-pod-mem-request", "0", "--velero-pod-mem-limit", "0", "--wait")
	require.NoError(m.t, err)
	return v
}

// installation is Velero or cleat in a namespace. Both are told what to do by the same objects.
type installation struct {
	*machine
	namespace string
	velero    bool
}

// sees fails the test unless what pods see after a restore by the installation is what they saw before.
func (i installation) sees(before, after []string) {
	i.t.Helper()
	if i.velero {
		before, after = asVelero(before), asVelero(after)
	}
	require.Equal(i.t, before, after)
}

// put creates an object in the namespace of the installation.
func (i installation) put(object client.Object) {
	i.t.Helper()
	object.SetNamespace(i.namespace)
	require.NoError(i.t, i.client.Create(i.t.Context(), object))
}

// await waits until an object of the installation has a state.
func (i installation) await(what string, object client.Object, name string, ready func() error) {
	i.t.Helper()
	i.retry(what, func(ctx context.Context) error {
		if err := i.client.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: name}, object); err != nil {
			return err
		}
		return ready()
	})
}

// backsUp backs up a namespace, the data of its CSI volumes too.
func (i installation) backsUp(name, namespace string) {
	i.t.Helper()
	i.put(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: velerov1.BackupSpec{
		IncludedNamespaces: []string{namespace}, SnapshotMoveData: new(true),
	}})
	i.knows(name)
}

// knows waits until the installation has a completed backup.
func (i installation) knows(name string) {
	i.t.Helper()
	b := &velerov1.Backup{}
	i.await("backup "+name+" ends", b, name, func() error {
		if !b.Status.Phase.Terminal() {
			return fmt.Errorf("it is %q", b.Status.Phase)
		}
		return nil
	})
	require.Equal(i.t, velerov1.BackupPhaseCompleted, b.Status.Phase, "%s: %+v\n%s", name, b.Status,
		i.results("backups", name))
}

// restores restores a backup of a namespace into another one.
func (i installation) restores(backup, from, to string) {
	i.t.Helper()
	i.knows(backup)
	i.put(&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: to},
		Spec: velerov1.RestoreSpec{BackupName: backup, NamespaceMapping: map[string]string{from: to}}})
	r := &velerov1.Restore{}
	i.await("restore "+to+" ends", r, to, func() error {
		if !r.Status.Phase.Terminal() {
			return fmt.Errorf("it is %q", r.Status.Phase)
		}
		return nil
	})
	require.Equal(i.t, velerov1.RestorePhaseCompleted, r.Status.Phase, "%+v\n%s", r.Status, i.results("restores", to))
}

// deletes deletes a backup with everything that it has stored. cleat asks whether that belongs to a backup from the
// bucket that it has not made itself, and the user says so.
func (i installation) deletes(backup string) {
	i.t.Helper()
	i.knows(backup)
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: backup}}
	require.NoError(i.t, i.client.Patch(i.t.Context(), b, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+velerov1.DeleteSnapshotsAnnotation+`":"true"}}}`))))
	i.put(&velerov1.DeleteBackupRequest{ObjectMeta: metav1.ObjectMeta{Name: "delete-" + backup},
		Spec: velerov1.DeleteBackupRequestSpec{BackupName: backup}})
	i.retry("backup "+backup+" is deleted", func(ctx context.Context) error {
		var request velerov1.DeleteBackupRequest
		err := i.client.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: "delete-" + backup}, &request)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		require.Empty(i.t, request.Status.Errors)
		err = i.client.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: backup}, &velerov1.Backup{})
		if err == nil {
			return errors.New("it exists")
		}
		return client.IgnoreNotFound(err)
	})
}

// moved is what a load of a backup has moved.
type moved struct {
	snapshot     string
	total, fresh int64 // bytes
}

// loadsOf returns what the loads of a backup of the installation have moved, by volume.
func (i installation) loadsOf(backup string) map[string]moved {
	i.t.Helper()
	all := map[string]moved{}
	labels := client.MatchingLabels{velerov1.BackupNameLabel: backup}
	var ofPods velerov1.PodVolumeBackupList
	require.NoError(i.t, i.client.List(i.t.Context(), &ofPods, client.InNamespace(i.namespace), labels))
	for _, l := range ofPods.Items {
		require.Equal(i.t, velerov1.RepositoryTypeKopia, l.Spec.UploaderType)
		all[l.Spec.Volume] = moved{l.Status.SnapshotID, l.Status.Progress.TotalBytes, l.Status.IncrementalBytes}
	}
	var uploads velerov2alpha1.DataUploadList
	require.NoError(i.t, i.client.List(i.t.Context(), &uploads, client.InNamespace(i.namespace), labels))
	for _, l := range uploads.Items {
		all[l.Spec.SourcePVC] = moved{l.Status.SnapshotID, l.Status.Progress.TotalBytes, l.Status.IncrementalBytes}
	}
	return all
}
