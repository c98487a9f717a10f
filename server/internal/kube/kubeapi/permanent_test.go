package kubeapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "a-b", "a.b-1", strings.Repeat("a", 253)} {
		require.NoError(t, CheckName("spec.name", name))
	}
	for _, name := range []string{"", "a/b", "..", ".", "%", "a%2fb", "A", "a b", "a\n", "../../secrets",
		strings.Repeat("a", 254), "ä"} {
		err := CheckName("spec.name", name)
		require.ErrorIs(t, err, ErrInvalidName, name)
		require.ErrorContains(t, err, "spec.name \"")
	}
	require.Less(t, len(CheckName("spec.name", strings.Repeat("/", 1<<20)).Error()), 600)
}

// TestRequestsThatCannotBeSentAreNotTransient asks the clients that the server uses for what has no path. The test
// shows when another version of them words its errors differently.
func TestRequestsThatCannotBeSentAreNotTransient(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	pods := kubernetes.NewForConfigOrDie(config).CoreV1()
	reader, err := client.New(config, client.Options{Mapper: fixedMapper(), Scheme: corev1Scheme(t)})
	require.NoError(t, err)
	for what, read := range map[string]func() error{
		"typed, name": func() error {
			_, err := pods.Pods("n").Get(t.Context(), "a/b", metav1.GetOptions{})
			return err
		},
		"typed, percent": func() error { _, err := pods.Pods("n").Get(t.Context(), "%", metav1.GetOptions{}); return err },
		"typed, dots":    func() error { _, err := pods.Pods("n").Get(t.Context(), "..", metav1.GetOptions{}); return err },
		"typed, empty":   func() error { _, err := pods.Pods("n").Get(t.Context(), "", metav1.GetOptions{}); return err },
		"typed, namespace": func() error {
			_, err := pods.Pods("a/b").Get(t.Context(), "p", metav1.GetOptions{})
			return err
		},
		"reader, name": func() error {
			return reader.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "a/b"}, new(corev1.Pod))
		},
		"reader, namespace": func() error {
			return reader.Get(t.Context(), client.ObjectKey{Namespace: "..", Name: "p"}, new(corev1.Pod))
		},
		"reader, create": func() error {
			return reader.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a/b", Name: "p"}})
		},
		"checked": func() error { return CheckName("spec.backupName", "a/b") },
	} {
		err := read()
		require.Error(t, err, what)
		require.False(t, Transient(err), "%s: %v", what, err)
		require.False(t, Transient(fmt.Errorf("get it: %w", errors.Join(err))), "%s, wrapped", what)
		again, effective := worthwhile(&Request{}, err, 1, false)
		require.False(t, again || effective, what)
	}
	require.Zero(t, asked.Load(), "nothing was sent")
	for _, passing := range []error{io.ErrUnexpectedEOF, errors.New("http2: client connection lost"),
		fmt.Errorf("read the reply: %w", io.EOF)} {
		require.True(t, Transient(passing), passing)
	}
}

func corev1Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	return scheme
}

// fixedMapper knows pods, so that no request is sent to find them.
func fixedMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	return mapper
}
