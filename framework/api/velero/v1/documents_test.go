package v1_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// readDocuments returns the documents of a folder by kind. The folder testdata has objects as Velero
// writes them with every field set, and testdata/bare objects with only the required fields and the
// zero values that Velero always writes.
func readDocuments(tb testing.TB, folder string) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(tb, err)
	documents := make(map[string][]byte, len(files))
	for _, file := range files {
		document, err := os.ReadFile(file)
		require.NoError(tb, err)
		var meta metav1.TypeMeta
		require.NoError(tb, json.Unmarshal(document, &meta))
		require.Equal(tb, strings.ToLower(meta.Kind)+".json", filepath.Base(file))
		documents[meta.Kind] = document
	}
	return documents
}

// objectKinds returns the declared kinds without their lists.
func objectKinds(tb testing.TB) map[string]schema.GroupVersion {
	tb.Helper()
	kinds := declaredKinds(newScheme(tb))
	maps.DeleteFunc(kinds, func(kind string, _ schema.GroupVersion) bool { return strings.HasSuffix(kind, "List") })
	return kinds
}

func TestVeleroDocumentsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"testdata", filepath.Join("testdata", "bare")} {
		documents := readDocuments(t, folder)
		for kind, version := range objectKinds(t) {
			t.Run(filepath.Base(folder)+"/"+kind, func(t *testing.T) {
				t.Parallel()
				require.Contains(t, documents, kind)
				object, gvk, err := newDecoder(t).Decode(documents[kind], nil, nil)
				require.NoError(t, err)
				require.Equal(t, version.WithKind(kind), *gvk)
				encoded, err := json.Marshal(object)
				require.NoError(t, err)
				require.JSONEq(t, string(documents[kind]), string(encoded))
			})
		}
	}
}

func TestVeleroListsRoundTrip(t *testing.T) {
	t.Parallel()
	for kind, document := range readDocuments(t, "testdata") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			list := `{"apiVersion":"` + objectKinds(t)[kind].String() + `","kind":"` + kind + `List",` +
				`"metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3},` +
				`"items":[` + string(document) + `,` + string(document) + `]}`
			object, _, err := newDecoder(t).Decode([]byte(list), nil, nil)
			require.NoError(t, err)
			encoded, err := json.Marshal(object)
			require.NoError(t, err)
			require.JSONEq(t, list, string(encoded))
		})
	}
}

func TestStrictDecoderRefusesUnknownFields(t *testing.T) {
	t.Parallel()
	document := `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"b"},"spec":{"ttI":"1h"}}`
	_, _, err := newDecoder(t).Decode([]byte(document), nil, nil)
	require.True(t, runtime.IsStrictDecodingError(err), "%v", err)
	require.ErrorContains(t, err, `spec.ttI`)
}

func TestNullsDecodeAsAbsent(t *testing.T) {
	t.Parallel()
	document := `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"b","creationTimestamp":null},
		"spec":{"includedNamespaces":null,"labelSelector":null,"orLabelSelectors":null,"snapshotVolumes":null,
		"hooks":null,"uploaderConfig":null,"resourcePolicy":null},
		"status":{"progress":null,"startTimestamp":null,"validationErrors":null,"phase":null}}`
	object, _, err := newDecoder(t).Decode([]byte(document), nil, nil)
	require.NoError(t, err)
	require.Equal(t, &v1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
	}, object)
}

func TestDocumentsSetEveryField(t *testing.T) {
	t.Parallel()
	for kind, document := range readDocuments(t, "testdata") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			object, _, err := newDecoder(t).Decode(document, nil, nil)
			require.NoError(t, err)
			set := make(map[string]bool)
			noteFields(reflect.ValueOf(object).Elem(), "", set)
			for field, isSet := range set {
				require.True(t, isSet, "no value of %s in the document of %s", field, kind)
			}
		})
	}
}

// noteFields records for each field of the types under test, by its path, whether it is set anywhere
// in value.
func noteFields(value reflect.Value, path string, set map[string]bool) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			noteFields(value.Elem(), path, set)
		}
	case reflect.Slice:
		for i := range value.Len() {
			noteFields(value.Index(i), path+"[]", set)
		}
	case reflect.Struct:
		if !isOurs(value.Type()) {
			return
		}
		for i := range value.NumField() {
			field := path + "." + value.Type().Field(i).Name
			empty := value.Field(i).Kind() == reflect.Struct && value.Field(i).NumField() == 0
			set[field] = set[field] || empty || !value.Field(i).IsZero()
			noteFields(value.Field(i), field, set)
		}
	}
}
