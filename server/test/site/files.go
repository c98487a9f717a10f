package site

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/test/described"
)

// Gzipped decodes a compressed JSON file of the bucket.
func Gzipped[T any](s *Site, path string) T {
	s.T.Helper()
	file, err := os.Open(filepath.Join(s.BucketDir, filepath.FromSlash(path)))
	require.NoError(s.T, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	require.NoError(s.T, err)
	var value T
	require.NoError(s.T, json.NewDecoder(plain).Decode(&value))
	return value
}

// Unzipped opens a file of the bucket.
func (s *Site) Unzipped(path ...string) *gzip.Reader {
	s.T.Helper()
	file, err := os.Open(filepath.Join(append([]string{s.BucketDir}, path...)...))
	require.NoError(s.T, err)
	s.T.Cleanup(func() { _ = file.Close() })
	plain, err := gzip.NewReader(file)
	require.NoError(s.T, err)
	return plain
}

// Files returns the names of the objects below a folder of the bucket.
func (s *Site) Files(dir string) []string {
	s.T.Helper()
	entries, err := os.ReadDir(filepath.Join(s.BucketDir, filepath.FromSlash(dir)))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(s.T, err)
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".attrs") {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names
}

// VelerosFiles are the files that Velero writes beside a backup.
func VelerosFiles(backup string) []string {
	files := []string{"velero-backup.json", backup + ".tar.gz"}
	for _, suffix := range []string{"itemoperations.json.gz", "logs.gz", "podvolumebackups.json.gz",
		"resource-list.json.gz", "results.gz",
		"volumeinfo.json.gz", "volumesnapshots.json.gz"} {
		files = append(files, backup+"-"+suffix)
	}
	slices.Sort(files)
	return files
}

// Artifacts returns the files of a backup that neither Velero writes nor each backup has, without the name of the
// backup.
func (s *Site) Artifacts(backup string) []string {
	s.T.Helper()
	files := s.Files("backups/" + backup)
	each := append(VelerosFiles(backup), backup+"-checksums.json", backup+"-items.sha256.gz")
	require.Subset(s.T, files, each)
	var others []string
	for _, name := range files {
		if !slices.Contains(each, name) && filepath.Ext(name) != ".tmp" {
			// A killed upload to the file store leaves such a file until the backup is deleted.
			others = append(others, strings.TrimPrefix(name, backup+"-"))
		}
	}
	return others
}

// File returns the content of a file of a backup.
func (s *Site) File(backup, name string) []byte {
	s.T.Helper()
	content, err := os.ReadFile(filepath.Join(s.BucketDir, "backups", backup, name))
	require.NoError(s.T, err)
	return content
}

// RequireDescribed requires that the manifest of a backup and its archive have the same items, except for information
// that is not in an archive.
func (s *Site) RequireDescribed(backup string) {
	s.T.Helper()
	_, differences, err := described.Compare(s.T.Context(), backup, bytes.NewReader(s.File(backup, backup+".tar.gz")),
		bytes.NewReader(s.File(backup, backup+"-manifest.json.gz")))
	require.NoError(s.T, err)
	require.Empty(s.T, differences)
}

// RequireSummed requires that the sums that are noted in a backup are those of its files, and those beside the archive
// those of its items.
func (s *Site) RequireSummed(b *velerov1.Backup) {
	s.T.Helper()
	noted, found := store.TallyOf(b), store.Tally{}
	for _, name := range s.Files("backups/" + b.Name) {
		if _, listed := noted[name]; listed || filepath.Ext(name) != ".tmp" { // as in Artifacts
			content := s.File(b.Name, name)
			found[name] = store.Sum{SHA256: fmt.Sprintf("%x", sha256.Sum256(content)), Size: int64(len(content))}
		}
	}
	require.Equal(s.T, noted, found)
	open := func() (io.ReadCloser, error) { return s.Unzipped("backups", b.Name, b.Name+"-items.sha256.gz"), nil }
	_, err := archive.CompareSums(s.T.Context(), bytes.NewReader(s.File(b.Name, b.Name+".tar.gz")), open,
		func(o archive.Object, how archive.Difference) {
			require.Fail(s.T, "an item differs from its sum", "%s: %d", o.Path(), how)
		})
	require.NoError(s.T, err)
}

// Entries returns the paths in the archive of a backup.
func (s *Site) Entries(backup string) (paths []string) {
	s.T.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(s.File(backup, backup+".tar.gz")))
	require.NoError(s.T, err)
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return paths
		}
		require.NoError(s.T, err)
		paths = append(paths, header.Name)
	}
}

// Archived returns a file in the archive of a backup.
func (s *Site) Archived(backup, name string) []byte {
	s.T.Helper()
	file, err := os.Open(filepath.Join(s.BucketDir, "backups", backup, backup+".tar.gz"))
	require.NoError(s.T, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	require.NoError(s.T, err)
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		require.NoError(s.T, err, "no %s in the archive", name)
		if header.Name != name {
			continue
		}
		content, err := io.ReadAll(archive)
		require.NoError(s.T, err)
		return content
	}
}

// Unpacked returns the contents of an archive by their names.
func Unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	found := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.False(t, slices.Contains([]string{"", "."}, header.Name))
		found[header.Name] = string(content)
	}
}

// ByName reads documents and lists of objects. Each object must occur once.
func ByName(t *testing.T, r io.Reader) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	add := func(object *unstructured.Unstructured) {
		key := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		require.NotContains(t, all, key)
		all[key] = object
	}
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		object := &unstructured.Unstructured{}
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		require.NoError(t, object.UnmarshalJSON(raw))
		if !object.IsList() {
			add(object)
			continue
		}
		require.NoError(t, object.EachListItem(func(item runtime.Object) error {
			add(item.(*unstructured.Unstructured)) //nolint:forcetypeassert // a list of these has nothing else
			return nil
		}))
	}
}

// Update is the flag with which tests rewrite their golden files.
var Update = flag.Bool("update", false, "write the golden files anew")

// Zipped returns text compressed with gzip.
func Zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	_, err := gz.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, gz.Close())
	return out.Bytes()
}

// ReadJSON reads a compressed file of the bucket.
func ReadJSON[T any](t *testing.T, s *Site, elements ...string) (value T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{s.BucketDir}, elements...)...))
	require.NoError(t, err)
	gz, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(gz).Decode(&value))
	return value
}

// VeleroMade writes a backup into the bucket, and its custom resource into the cluster, in the form that Velero
// leaves: with claims, volumes and a pod whose data is in snapshots and file system backups. moved adds the DataUpload
// of the claim "moved".
func (s *Site) VeleroMade(name string, extra map[string]string, moved bool) {
	s.T.Helper()
	ns := s.Namespace + "-" + name
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, time.Unix(0, 0))
	require.NoError(s.T, err)
	add := func(resource, namespace, name, body string) {
		body = strings.NewReplacer("NS", ns).Replace(body)
		require.NoError(s.T, w.Item(schema.GroupResource{Resource: resource}, "v1", true, namespace, name, []byte(body)))
	}
	add("namespaces", "", ns, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NS"}}`)
	add("serviceaccounts", ns, "default",
		`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":"NS"}}`)
	for claim, policy := range map[string]string{"native": "Delete", "csi": "Delete", "moved": "Retain", "files": "Delete",
		"plain": "Retain", "empty": "Delete"} {
		add("persistentvolumes", "", ns+"-"+claim, `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"NS-`+
			claim+`"},"spec":{"capacity":{"storage":"1Gi"},
			"accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"`+policy+`","csi":{"driver":"none.example.com","volumeHandle":"`+claim+`"},
			"claimRef":{"kind":"PersistentVolumeClaim","namespace":"NS","name":"`+claim+`","uid":"u","resourceVersion":"3"}}}`)
		upload := ""
		if moved && claim == "moved" {
			upload = `,"velero.io/data-upload-name":"velero/u"`
		}
		add("persistentvolumeclaims", ns, claim, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"`+
			claim+`","namespace":"NS","uid":"u",
			"annotations":{"pv.kubernetes.io/bind-completed":"yes"`+upload+`}},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","volumeName":"NS-`+claim+`",
			"resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Bound"}}`)
	}
	add("pods", ns, "db", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db","namespace":"NS"},"spec":{"containers":[{"name":"c","image":"i"}],
		"volumes":[{"name":"cache","emptyDir":{}}]}}`)
	if moved {
		add("datauploads.velero.io", s.Namespace, "u",
			`{"apiVersion":"velero.io/v2alpha1","kind":"DataUpload","metadata":{"name":"u","namespace":"`+s.Namespace+`"},
			"spec":{"datamover":"velero","sourceNamespace":"NS","sourcePVC":"moved"},"status":{"phase":"Completed","snapshotID":"m"}}`)
	}
	require.NoError(s.T, w.Close())

	dir := filepath.Join(s.BucketDir, "backups", name)
	require.NoError(s.T, os.MkdirAll(dir, 0o755))
	write := func(file string, content []byte) {
		require.NoError(s.T, os.WriteFile(filepath.Join(dir, file), content, 0o600))
	}
	made := &velerov1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       velerov1.BackupSpec{StorageLocation: "default", SnapshotMoveData: &moved},
		Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted, FormatVersion: "1.1.0"},
	}
	metadata, err := json.Marshal(made)
	require.NoError(s.T, err)
	write("velero-backup.json", metadata)
	write(name+".tar.gz", out.Bytes())
	for file, text := range extra {
		write(name+file, Zipped(s.T, strings.ReplaceAll(text, "NS", ns)))
	}
	require.NoError(s.T, s.Client.Create(s.T.Context(), made))
}

// Overwrite stores an object of the S3 server, as a client of the bucket does.
func (s *Site) Overwrite(path string, content []byte) {
	s.T.Helper()
	at := s.Cluster.S3
	objects := s3.New(s3.Options{
		BaseEndpoint: aws.String(at.Endpoint), Region: at.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(at.AccessKey, at.SecretKey, ""),
	})
	bucket, key, _ := strings.Cut(strings.TrimPrefix(path, at.Dir+"/"), "/")
	_, err := objects.PutObject(s.T.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key,
		Body: bytes.NewReader(content)})
	require.NoError(s.T, err)
}
