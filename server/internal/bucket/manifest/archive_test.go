package manifest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	manifestwriterv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// file is one entry of an archive.
type file struct{ path, body string }

// pack returns a tar.gz as Velero writes it: other than Writer, it gives the entries in any order.
func pack(t testing.TB, files ...file) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for _, f := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.path, Mode: 0o755, Typeflag: tar.TypeReg,
			Size: int64(len(f.body))}))
		_, err := io.WriteString(w, f.body)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, compressed.Close())
	return packed.Bytes()
}

// object is one object of the test's backups.
type object struct {
	resource, version string
	notPreferred      bool
	namespace, name   string
	body              string
}

// objects returns objects of all shapes: with and without namespace, labels, annotations, owners, and in two versions.
func objects() []object {
	const applied = `"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"c2VjcmV0\"}}"`
	return []object{
		{"namespaces", "v1", false, "", "shop",
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","uid":"u1","labels":{"team":"a"}}}`},
		{"pods", "v1", false, "shop", "web-0",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop","uid":"u2","labels":{"app":"web","x":""},` +
				`"annotations":{"note":"<b>&amp;</b>",` + applied + `},` +
				`"ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web","uid":"u3","controller":true},` +
				`{"apiVersion":"example.io/v1","kind":"Widget","name":"w","uid":"u4"}]},` +
				`"spec":{"serviceAccountName":"web","volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-web-0"}}]}}`},
		{"secrets", "v1", false, "shop", "key", `{"metadata":{"annotations":{` + applied +
			`},"uid":"u5","namespace":"shop","name":"key"},"kind":"Secret","apiVersion":"v1","data":{"a":"Yg=="}}`},
		{"statefulsets.apps", "v1", false, "shop", "web",
			`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"web","namespace":"shop","uid":"u3"}}`},
		{"widgets.example.io", "v2", false, "shop", "w",
			`{"apiVersion":"example.io/v2","kind":"Widget","metadata":{"name":"w","namespace":"shop","uid":"u4","labels":{"v":"2"}}}`},
		{"widgets.example.io", "v1", true, "shop", "w",
			`{"apiVersion":"example.io/v1","kind":"Widget","metadata":{"name":"w","namespace":"shop","uid":"u4","labels":{"v":"1"}}}`},
		{"clusterroles.rbac.authorization.k8s.io", "v1", false, "", "system:node:x",
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"system:node:x"}}`},
		{"configmaps", "v1", false, "shop", "empty",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"empty","namespace":"shop","labels":null,"ownerReferences":[]}}`},
	}
}

// archives returns archives with the objects: of this project's writer, and as Velero writes and wrote them.
func archives(t testing.TB, all []object) map[string][]byte {
	t.Helper()
	var own bytes.Buffer
	w, err := archive.NewWriter(&own, time.Unix(0, 0))
	require.NoError(t, err)
	stock := []file{{"metadata/version", "1.1.0\n"}}
	old := []file{{"metadata/version", "1.0.0\n"}}
	var later []file
	for _, o := range all {
		gr := schema.ParseGroupResource(o.resource)
		require.NoError(t, w.Item(gr, o.version, !o.notPreferred, o.namespace, o.name, []byte(o.body)))
		if o.notPreferred {
			stock = append(stock, file{archive.ItemPath(gr, o.version, o.namespace, o.name), o.body})
			continue
		}
		entry := file{archive.ItemPath(gr, "", o.namespace, o.name), o.body}
		old, later = append(old, entry), append(later, entry)
		stock = append(stock, file{archive.ItemPath(gr, o.version+"-preferredversion", o.namespace, o.name), o.body})
	}
	require.NoError(t, w.Close())
	return map[string][]byte{
		"own": own.Bytes(), "stock 1.1.0": pack(t, append(stock, later...)...), "stock 1.0.0": pack(t, old...),
		"without a version": pack(t, old[1:]...),
	}
}

func header() manifest.Header {
	return manifest.Header{FormatVersion: "1.1.0", Backup: manifest.Backup{Name: "nightly", Namespace: "velero",
		UID: "b1"}}
}

func fromArchive(t testing.TB, packed []byte) (*manifest.Manifest, manifest.Header) {
	t.Helper()
	var out bytes.Buffer
	err := servermanifest.FromArchive(t.Context(), bytes.NewReader(packed), header(), reference.BuiltIn(), &out,
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	read, head, err := manifest.Load(&out)
	require.NoError(t, err)
	return read, head
}

// metadata is what a manifest and its archive have in common.
type metadata struct {
	kind, uid           string
	labels, annotations map[string]string
	owners              []string
}

// readArchive reads an archive by means of its own: the metadata of each object by resource, namespace, version and
// name.
func readArchive(t testing.TB, packed []byte, omitted ...string) map[string]metadata {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	found := map[string]metadata{}
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if err == io.EOF {
			return found
		}
		require.NoError(t, err)
		parts := strings.Split(header.Name, "/")
		if parts[0] != "resources" || strings.Contains(header.Name, "-preferredversion/") {
			continue
		}
		var o struct {
			APIVersion, Kind string
			Metadata         struct {
				Name, Namespace, UID string
				Labels, Annotations  map[string]string
				OwnerReferences      []struct{ UID string }
			}
		}
		require.NoError(t, json.NewDecoder(entries).Decode(&o))
		for _, key := range omitted {
			delete(o.Metadata.Annotations, key)
		}
		m := metadata{kind: o.Kind, uid: o.Metadata.UID, labels: o.Metadata.Labels, annotations: o.Metadata.Annotations}
		for _, owner := range o.Metadata.OwnerReferences {
			m.owners = append(m.owners, owner.UID)
		}
		namespace := o.Metadata.Namespace
		if namespace == "" {
			namespace = "cluster"
		}
		version := o.APIVersion[strings.LastIndex(o.APIVersion, "/")+1:]
		path := fmt.Sprintf("%s/%s/%s/%s.json", parts[1], namespace, version, o.Metadata.Name)
		require.NotContains(t, found, path)
		found[path] = m
	}
}

// readManifest returns the same of a manifest.
func readManifest(m *manifest.Manifest) map[string]metadata {
	found := map[string]metadata{}
	for item := range m.Items() {
		found[item.String()] = metadata{item.ItemKind, item.UID, item.Labels, item.Annotations, item.OwnerUIDs}
	}
	return found
}

func requireSame(t testing.TB, want, got map[string]metadata) {
	t.Helper()
	for path, w := range want {
		require.Contains(t, got, path, "of the archive")
		g := got[path]
		require.Equal(t, [2]string{w.kind, w.uid}, [2]string{g.kind, g.uid}, path)
		require.True(t, maps.Equal(w.labels, g.labels), "%s: labels %v and %v", path, w.labels, g.labels)
		require.True(t, maps.Equal(w.annotations, g.annotations), "%s: annotations %v and %v", path, w.annotations,
			g.annotations)
		require.ElementsMatch(t, w.owners, g.owners, path)
	}
	for path := range got {
		require.Contains(t, want, path, "of the manifest")
	}
}

func TestAcceptManifest_EqualsArchive(t *testing.T) {
	t.Parallel()
	for name, packed := range archives(t, objects()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, head := fromArchive(t, packed)
			want := readArchive(t, packed, manifest.OmittedByDefault()...)
			require.GreaterOrEqual(t, len(want), len(objects())-1)
			requireSame(t, want, readManifest(read))
			wantHead := header()
			wantHead.OmittedAnnotations = manifest.OmittedByDefault()
			require.Equal(t, wantHead, head)

			pod := read.Find(manifest.Ref{Resource: "pods", Namespace: "shop", Name: "web-0"})
			require.Len(t, pod.Edges, 4, "owners, claim and service account")
			require.Zero(t, pod.Included, "nobody knows")
			require.Equal(t, read.Find(manifest.Ref{UID: "u3"}), pod.Owners()[0])
		})
	}
}

// TestItemIsWhatTheArchiveSays has the built-in writer make a document of what writers get: it is that of the archive.
func TestItemIsWhatTheArchiveSays(t *testing.T) {
	t.Parallel()
	read, head := fromArchive(t, archives(t, objects())["own"])
	for _, o := range objects() {
		meta, err := item.ParseMeta([]byte(o.body))
		require.NoError(t, err)
		made, err := servermanifest.Item(schema.ParseGroupResource(o.resource).WithVersion(o.version), []byte(o.body), meta,
			reference.BuiltIn())
		require.NoError(t, err)
		sent, err := json.Marshal(made)
		require.NoError(t, err)
		var received manifestwriterv1.Item // the fields of both have the same names
		require.NoError(t, json.Unmarshal(sent, &received))
		want := received.Document()
		head.Omit(want)
		got := *read.Kinds[o.resource+"/"+o.version][o.namespace][o.name]
		got.Manifest = nil
		wantJSON, err := json.Marshal(want)
		require.NoError(t, err)
		gotJSON, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, string(wantJSON), string(gotJSON))
	}
}

func TestFromArchiveKeepsAnnotationsIfNoneAreToBeOmitted(t *testing.T) {
	t.Parallel()
	packed := archives(t, objects())["own"]
	var out bytes.Buffer
	head := header()
	head.OmittedAnnotations = []string{}
	require.NoError(t, servermanifest.FromArchive(t.Context(), bytes.NewReader(packed), head, reference.BuiltIn(), &out,
		manifest.Options{}))
	read, _, err := manifest.Load(&out)
	require.NoError(t, err)
	requireSame(t, readArchive(t, packed), readManifest(read))
}

func TestFromArchiveOfAnEmptyBackup(t *testing.T) {
	t.Parallel()
	read, _ := fromArchive(t, pack(t, file{"metadata/version", "1.1.0\n"}))
	require.Empty(t, read.Set())
}

func TestFromArchiveReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const pod = "resources/pods/namespaces/shop/a.json"
	whole := archives(t, objects())["own"]
	for name, test := range map[string]struct {
		packed []byte
		want   error
		text   string
	}{
		"cut": {packed: whole[:len(whole)/2], want: archive.ErrTruncated,
			text: "make a manifest from the archive of backup nightly"},
		"nothing": {want: archive.ErrNotArchive},
		"way out": {packed: pack(t, file{"resources/pods/namespaces/../a.json", "{}"}), want: archive.ErrUnsafePath},
		"not JSON": {packed: pack(t, file{pod, "{"}), text: `entry 1, "` + pod +
			`", near byte 512 of the tar: invalid JSON at byte 1`},
		"not an object": {packed: pack(t, file{pod, "[]"}), text: "want an object"},
		"without a kind": {packed: pack(t, file{pod, `{"apiVersion":"v1","metadata":{"name":"a","namespace":"shop"}}`}),
			text: "no kind or apiVersion"},
		"other name": {
			packed: pack(t, file{pod, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"shop"}}`}),
			text:   `it holds the object "v1 Pod shop b", want the one that its path names`,
		},
		"other namespace": {
			packed: pack(t, file{pod, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`}),
			text:   `it holds the object "v1 Pod a", want the one that its path names`,
		},
		"other group": {
			packed: pack(t, file{pod, `{"apiVersion":"apps/v1","kind":"Pod","metadata":{"name":"a","namespace":"shop"}}`}),
			text:   `it holds the object "apps/v1 Pod shop a"`,
		},
		"other version": {
			packed: pack(t, file{"resources/pods/v2/namespaces/shop/a.json",
				`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop"}}`}),
			text: `it holds the object "v1 Pod shop a"`,
		},
		"bad version": {
			packed: pack(t, file{"resources/pods.apps/namespaces/shop/a.json",
				`{"apiVersion":"apps/","kind":"Pod","metadata":{"name":"a","namespace":"shop"}}`}), text: "the version of item",
		},
		"long name": {
			packed: pack(t, file{"resources/pods/cluster/" + strings.Repeat("a", 2000) + ".json", "{}"}), want: archive.ErrLimit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := servermanifest.FromArchive(t.Context(), bytes.NewReader(test.packed), header(), reference.BuiltIn(), &out,
				manifest.Options{})
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
			require.ErrorContains(t, err, test.text)
			require.Empty(t, out.Bytes())
		})
	}
}
