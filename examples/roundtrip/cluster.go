package roundtrip

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/cleat-dev/cleat/examples/world"
)

// Namespace is where the server and its custom resources live.
const Namespace = "velero"

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	locations  = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backupstoragelocations"}
)

// prepare creates what an operator would: the namespace, the credentials and the default location.
func prepare(ctx context.Context, c *world.Client, o Options) error {
	d, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	credentials := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", o.S3.AccessKey, o.S3.SecretKey)
	storage := map[string]any{"bucket": o.Bucket}
	if o.S3.CAFile != "" {
		ca, err := os.ReadFile(o.S3.CAFile)
		if err != nil {
			return fmt.Errorf("the S3 server's CA: %w", err)
		}
		storage["caCert"] = base64.StdEncoding.EncodeToString(ca)
	}
	for _, step := range []struct {
		r dynamic.ResourceInterface
		o map[string]any
	}{
		{d.Resource(namespaces), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace}}},
		{d.Resource(secrets).Namespace(Namespace), map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "cloud-credentials"},
			"data": map[string]any{"cloud": base64.StdEncoding.EncodeToString([]byte(credentials))},
		}},
		{d.Resource(locations).Namespace(Namespace), map[string]any{
			"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": map[string]any{"name": "default"},
			"spec": map[string]any{
				"provider": "cleat.dev/s3", "default": true, "objectStorage": storage,
				"credential": map[string]any{"name": "cloud-credentials", "key": "cloud"},
				"config":     map[string]any{"region": o.S3.Region, "s3Url": o.S3.Endpoint, "s3ForcePathStyle": "true"},
			},
		}},
	} {
		_, err := step.r.Create(ctx, &unstructured.Unstructured{Object: step.o}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s: %w", step.o["kind"], err)
		}
	}
	return nil
}

// awaitLocation waits until the server has found the location usable.
func awaitLocation(ctx context.Context, c *world.Client) error {
	d, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	var message string
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		l, err := d.Resource(locations).Namespace(Namespace).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			message = err.Error()
			return false, nil
		}
		phase, _, _ := unstructured.NestedString(l.Object, "status", "phase")
		message, _, _ = unstructured.NestedString(l.Object, "status", "message")
		return phase == "Available", nil
	})
	if err != nil {
		return fmt.Errorf("backup storage location is not available: %w", errors.Join(err, errors.New(message)))
	}
	return nil
}

// marked counts the objects that the example plugin says it marked, from its lines in the server's log.
func marked(logFile string) (int, error) {
	log, err := os.ReadFile(logFile)
	if err != nil {
		return 0, fmt.Errorf("the server's log: %w", err)
	}
	return bytes.Count(log, []byte("marked for backup")), nil
}
