package crds_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/api/velero/crds"
	v1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

var plane controlplane.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

const (
	typeJSON       = "application/json"
	typeMergePatch = "application/merge-patch+json"
)

func TestAPIServerPreservesEveryField(t *testing.T) {
	t.Parallel()
	server := connect(t)
	installDefinitions(t, server)
	const namespace = "keeps-every-field"
	server.must(t, http.StatusCreated, http.MethodPost, "/api/v1/namespaces", typeJSON,
		[]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+namespace+`"}}`))

	expected := expectations()
	for _, folder := range []string{"testdata", filepath.Join("testdata", "bare")} {
		for kind, document := range readDocuments(t, filepath.Join("..", "v1", folder)) {
			t.Run(filepath.Base(folder)+"/"+kind, func(t *testing.T) {
				t.Parallel()
				// Unknown fields are errors, so that none can be pruned silently.
				object := decode(t, document)
				collection := "/apis/" + expected[kind].group() + "/namespaces/" + namespace + "/" + expected[kind].plural
				name := strings.ToLower(kind) + "-" + filepath.Base(folder)
				server.must(t, http.StatusCreated, http.MethodPost, collection+"?fieldValidation=Strict", typeJSON,
					withMetadata(t, document, namespace, name))

				stored := server.must(t, http.StatusOK, http.MethodGet, collection+"/"+name, "", nil)
				requireSameContent(t, object, decode(t, stored))
			})
		}
	}
	t.Run("status is written without a subresource", func(t *testing.T) {
		t.Parallel()
		backups := "/apis/velero.io/v1/namespaces/" + namespace + "/backups"
		document := []byte(`{"apiVersion":"velero.io/v1","kind":"Backup","spec":{"ttl":"1h0m0s"}}`)
		server.must(t, http.StatusCreated, http.MethodPost, backups, typeJSON,
			withMetadata(t, document, namespace, "patched"))
		patch := []byte(`{"status":{"phase":"Queued","queuePosition":2}}`)
		server.must(t, http.StatusNotFound, http.MethodPatch, backups+"/patched/status", typeMergePatch, patch)
		server.must(t, http.StatusOK, http.MethodPatch, backups+"/patched", typeMergePatch, patch)

		stored := server.must(t, http.StatusOK, http.MethodGet, backups+"/patched", "", nil)
		var backup v1.Backup
		require.NoError(t, json.Unmarshal(stored, &backup))
		require.Equal(t, v1.BackupStatus{Phase: v1.BackupPhaseQueued, QueuePosition: 2}, backup.Status)
		require.Equal(t, time.Hour, backup.Spec.TTL.Duration)
	})
	for name, document := range map[string]string{
		"a phase that does not exist": `{"apiVersion":"velero.io/v1","kind":"Backup","status":{"phase":"Paused"}}`,
		"a hook without a command":    `{"apiVersion":"velero.io/v1","kind":"Backup","spec":{"hooks":{"resources":[{"name":"h","pre":[{"exec":{"command":[]}}]}]}}}`,
		"a hook without a name":       `{"apiVersion":"velero.io/v1","kind":"Backup","spec":{"hooks":{"resources":[{}]}}}`,
		"a duration in days":          `{"apiVersion":"velero.io/v1","kind":"Backup","spec":{"ttl":"30d"}}`,
		"a number as a duration":      `{"apiVersion":"velero.io/v1","kind":"Backup","spec":{"ttl":3600}}`,
	} {
		t.Run("the server refuses "+name, func(t *testing.T) {
			t.Parallel()
			answer := server.must(t, http.StatusUnprocessableEntity, http.MethodPost,
				"/apis/velero.io/v1/namespaces/"+namespace+"/backups", typeJSON,
				withMetadata(t, []byte(document), namespace, "refused"))
			require.Contains(t, string(answer), `"reason":"Invalid"`)
		})
	}
}

// apiServer is a client of an API server with the rights of an administrator.
type apiServer struct {
	url, token string
	client     *http.Client
}

// connect starts or joins the control plane of this package.
func connect(t *testing.T) apiServer {
	t.Helper()
	cluster := plane.Get(t)
	ca, err := os.ReadFile(cluster.CAFile)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca), "%s holds no certificate", cluster.CAFile)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return apiServer{url: cluster.APIServer, token: cluster.Token, client: &http.Client{Transport: transport}}
}

// do sends one request and returns the status and body of the response.
func (s apiServer) do(t *testing.T, method, path, contentType string, body []byte) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Accept", typeJSON)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := s.client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, answer
}

// must is like do and requires that the response has the status want.
func (s apiServer) must(t *testing.T, want int, method, path, contentType string, body []byte) []byte {
	t.Helper()
	status, answer := s.do(t, method, path, contentType, body)
	require.Equal(t, want, status, "%s %s: %s", method, path, answer)
	return answer
}

// installDefinitions creates all definitions and waits until the server serves their resources.
func installDefinitions(t *testing.T, server apiServer) {
	t.Helper()
	documents, err := crds.All()
	require.NoError(t, err)
	for _, document := range documents {
		encoded, err := yaml.YAMLToJSON(document)
		require.NoError(t, err)
		server.must(t, http.StatusCreated, http.MethodPost,
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldValidation=Strict", typeJSON, encoded)
	}
	const patience = 5 * time.Minute
	started := time.Now()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for kind, want := range expectations() {
		for {
			status, answer := server.do(t, http.MethodGet, "/apis/"+want.group()+"/"+want.plural, "", nil)
			if status == http.StatusOK {
				break
			}
			require.Less(t, time.Since(started), patience, "%s is not served: %d %s", kind, status, answer)
			<-poll.C
		}
	}
}

// readDocuments returns the JSON documents of a folder by kind.
func readDocuments(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	documents := make(map[string][]byte)
	for kind := range expectations() {
		document, err := os.ReadFile(filepath.Join(folder, strings.ToLower(kind)+".json"))
		require.NoError(t, err)
		documents[kind] = document
	}
	return documents
}

// decode reads an object, in which unknown fields are errors.
func decode(t *testing.T, document []byte) runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1.AddToScheme(scheme))
	require.NoError(t, v2alpha1.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode(document, nil, nil)
	require.NoError(t, err)
	return object
}

// withMetadata returns the document with metadata that a client may create an object with.
func withMetadata(t *testing.T, document []byte, namespace, name string) []byte {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal(document, &object))
	object["metadata"] = map[string]string{"namespace": namespace, "name": name}
	encoded, err := json.Marshal(object)
	require.NoError(t, err)
	return encoded
}

// requireSameContent checks that two objects have the same spec and status.
func requireSameContent(t *testing.T, want, got runtime.Object) {
	t.Helper()
	content := func(object runtime.Object) map[string]any {
		encoded, err := json.Marshal(object)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(encoded, &fields))
		delete(fields, "metadata")
		return fields
	}
	require.Equal(t, content(want), content(got))
}
