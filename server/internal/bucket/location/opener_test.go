package location_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/versioning/objectstore"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// secrets is a client that serves the Secrets of namespace ns, by name.
type secrets map[string]map[string][]byte

func (s secrets) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	data, found := s[key.Name]
	if !found || key.Namespace != "ns" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	object.(*corev1.Secret).Data = data
	return nil
}

func (secrets) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// recorder is a plugin host that records the arguments of its calls.
type recorder struct {
	location, provider string
	config             map[string]string
	released           []string
}

func (r *recorder) ObjectStore(
	_ context.Context, location, provider string, config map[string]string,
) (objectstore.Store, error) {
	r.location, r.provider, r.config = location, provider, maps.Clone(config)
	return nil, nil
}

func (r *recorder) InFront(string) ([]string, bool) { return nil, false }

func (r *recorder) ReleaseObjectStore(location string) { r.released = append(r.released, location) }

func (r *recorder) VolumeSnapshotter(
	_ context.Context, location, provider string, config map[string]string,
) (volumesnapshotter.Snapshotter, error) {
	r.location, r.provider, r.config = location, provider, maps.Clone(config)
	return nil, nil
}

func (r *recorder) ReleaseVolumeSnapshotter(location string) {
	r.released = append(r.released, location)
}

func TestSnapshotterGetsConfigAsInVelero(t *testing.T) {
	t.Parallel()
	host, dir := &recorder{}, t.TempDir()
	opener := location.NewOpener(secrets{"creds": {"cloud": []byte("content")}}, host, dir, hclog.NewNullLogger())
	vsl := &velerov1.VolumeSnapshotLocation{}
	vsl.Namespace, vsl.Name = "ns", "default"
	_, err := opener.OpenSnapshotter(t.Context(), vsl)
	require.ErrorContains(t, err, "open volume snapshot location default: spec.provider is empty")
	require.Empty(t, host.location, "no plugin may be started")

	vsl.Spec.Provider, vsl.Spec.Config, vsl.Spec.Credential = "aws", map[string]string{"region": "x"}, selector("creds",
		"cloud")
	before := vsl.DeepCopy()
	_, err = opener.OpenSnapshotter(t.Context(), vsl)
	require.NoError(t, err)
	require.Equal(t, []string{"ns/default", "aws", "x"}, []string{host.location, host.provider, host.config["region"]})
	require.Equal(t, before, vsl, "the location must not be changed")
	file := host.config["credentialsFile"]
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))

	require.NoError(t, opener.Release("ns", "default"))
	require.FileExists(t, file, "it belongs to the volume snapshot location of the same name")
	released := &location.SnapshotLocations{Client: secrets{}, Opener: opener}
	_, err = released.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vsl)})
	require.NoError(t, err)
	require.NoFileExists(t, file)
	require.Equal(t, []string{"ns/default", "ns/default"}, host.released)

	vsl.Spec.Credential.Name = "missing"
	_, err = opener.OpenSnapshotter(t.Context(), vsl)
	require.ErrorContains(t, err, "open volume snapshot location default: spec.credential: there is no Secret ns/missing")
}

func bsl(change func(*velerov1.BackupStorageLocationSpec)) *velerov1.BackupStorageLocation {
	l := &velerov1.BackupStorageLocation{}
	l.Namespace, l.Name = "ns", "default"
	l.Spec.Provider = "aws"
	l.Spec.Config = map[string]string{"region": "x"}
	l.Spec.ObjectStorage = &velerov1.ObjectStorageLocation{Bucket: "bucket"}
	if change != nil {
		change(&l.Spec)
	}
	return l
}

func selector(name, key string) *velerov1.SecretKeySelector {
	return &velerov1.SecretKeySelector{Name: name, Key: key}
}

func TestInitGetsConfigAsInVelero(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec func(*velerov1.BackupStorageLocationSpec)
		want map[string]string
	}{
		"plain": {nil, map[string]string{"region": "x", "bucket": "bucket", "prefix": ""}},
		"slashes are trimmed": {func(s *velerov1.BackupStorageLocationSpec) {
			s.ObjectStorage.Bucket, s.ObjectStorage.Prefix = "/bucket/", "/a/b/"
		}, map[string]string{"region": "x", "bucket": "bucket", "prefix": "a/b"}},
		"no config": {func(s *velerov1.BackupStorageLocationSpec) { s.Config = nil },
			map[string]string{"bucket": "bucket", "prefix": ""}},
		"access point": {func(s *velerov1.BackupStorageLocationSpec) {
			s.ObjectStorage.Bucket = "arn:aws:s3:eu-central-1:123:accesspoint/mine"
		}, map[string]string{"region": "x", "bucket": "arn:aws:s3:eu-central-1:123:accesspoint/mine", "prefix": ""}},
		"inline CA": {func(s *velerov1.BackupStorageLocationSpec) { s.ObjectStorage.CACert = []byte("PEM") },
			map[string]string{"region": "x", "bucket": "bucket", "prefix": "", "caCert": "PEM"}},
		"CA of a Secret": {func(s *velerov1.BackupStorageLocationSpec) {
			s.ObjectStorage.CACertRef = selector("ca", "ca.crt")
		},
			map[string]string{"region": "x", "bucket": "bucket", "prefix": "", "caCert": "PEM of a Secret"}},
		"keys that the host sets take precedence": {func(s *velerov1.BackupStorageLocationSpec) { s.Config["bucket"] = "other" },
			map[string]string{"region": "x", "bucket": "bucket", "prefix": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &recorder{}
			opener := location.NewOpener(secrets{"ca": {"ca.crt": []byte("PEM of a Secret")}}, host, t.TempDir(),
				hclog.NewNullLogger())
			l := bsl(test.spec)
			before := l.DeepCopy()
			_, err := opener.Open(t.Context(), l)
			require.NoError(t, err)
			require.Equal(t, test.want, host.config)
			require.Equal(t, "aws", host.provider)
			require.Equal(t, "ns/default", host.location)
			require.Equal(t, before, l, "the location must not be changed")
		})
	}
}

func TestOpenRefusesWrongSpecs(t *testing.T) {
	t.Parallel()
	have := secrets{"creds": {"cloud": []byte("x"), "empty": nil}}
	for name, test := range map[string]struct {
		spec func(*velerov1.BackupStorageLocationSpec)
		want string
	}{
		"no storage": {func(s *velerov1.BackupStorageLocationSpec) { s.ObjectStorage = nil },
			"spec.objectStorage is missing"},
		"no provider": {func(s *velerov1.BackupStorageLocationSpec) { s.Provider = "" }, "spec.provider is empty"},
		"no bucket": {func(s *velerov1.BackupStorageLocationSpec) { s.ObjectStorage.Bucket = "/" },
			`spec.objectStorage.bucket is "/"`},
		"slash in bucket": {func(s *velerov1.BackupStorageLocationSpec) { s.ObjectStorage.Bucket = "a/b" },
			`bucket "a/b" must not contain a '/'`},
		"two CAs": {func(s *velerov1.BackupStorageLocationSpec) {
			s.ObjectStorage.CACert, s.ObjectStorage.CACertRef = []byte("x"), selector("creds", "cloud")
		}, "cannot specify both caCert and caCertRef in objectStorage"},
		"no Secret": {func(s *velerov1.BackupStorageLocationSpec) { s.Credential = selector("missing", "cloud") },
			"spec.credential: there is no Secret ns/missing"},
		"no key": {func(s *velerov1.BackupStorageLocationSpec) { s.Credential = selector("creds", "aws") },
			`spec.credential: the Secret ns/creds has no value for key "aws", its keys are ["cloud" "empty"]`},
		"empty key": {func(s *velerov1.BackupStorageLocationSpec) { s.Credential = selector("creds", "empty") },
			`has no value for key "empty"`},
		"nameless": {func(s *velerov1.BackupStorageLocationSpec) { s.Credential = selector("", "") },
			"want the name of a Secret and a key"},
		"no CA's Secret": {func(s *velerov1.BackupStorageLocationSpec) {
			s.ObjectStorage.CACertRef = selector("missing", "x")
		}, "spec.objectStorage.caCertRef: there is no Secret ns/missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &recorder{}
			_, err := location.NewOpener(have, host, t.TempDir(), hclog.NewNullLogger()).Open(t.Context(), bsl(test.spec))
			require.ErrorContains(t, err, test.want)
			require.Empty(t, host.location, "no plugin may be started")
		})
	}
}

func TestCredentialsArePrivateFiles(t *testing.T) {
	t.Parallel()
	host, dir := &recorder{}, filepath.Join(t.TempDir(), "credentials")
	have := secrets{"creds": {"cloud": []byte("first")}}
	opener := location.NewOpener(have, host, dir, hclog.NewNullLogger())
	l := bsl(func(s *velerov1.BackupStorageLocationSpec) { s.Credential = selector("creds", "cloud") })
	open := func() (string, os.FileInfo) {
		_, err := opener.Open(t.Context(), l)
		require.NoError(t, err)
		info, err := os.Stat(host.config["credentialsFile"])
		require.NoError(t, err)
		return host.config["credentialsFile"], info
	}
	path, info := open()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "first", string(content))
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())

	again, same := open()
	require.Equal(t, path, again, "the same credentials must give the same configuration")
	require.True(t, os.SameFile(info, same), "the same credentials must not be written again")
	require.Equal(t, info.ModTime(), same.ModTime())

	have["creds"] = map[string][]byte{"cloud": []byte("of a location that has changed")}
	l.Generation++
	rotated, _ := open()
	require.NotEqual(t, path, rotated, "a location that has changed must have its Secret read at once")

	have["creds"] = map[string][]byte{"cloud": []byte("second")}
	var changed string
	require.Eventually(t, func() bool {
		changed, _ = open()
		return rotated != changed
	}, waitFor, tick, "new credentials must give another configuration, so that the plugin is restarted")
	content, err = os.ReadFile(changed)
	require.NoError(t, err)
	require.Equal(t, "second", string(content))
	require.FileExists(t, path, "the old plugin may still need it")

	require.NoError(t, opener.Release("ns", "default"))
	require.Equal(t, []string{"ns/default"}, host.released)
	require.NoFileExists(t, path)
	require.NoFileExists(t, changed)
	_, _ = open()
	require.NoError(t, opener.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
