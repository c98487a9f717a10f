package roundtrip

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/world"
)

// Namespace is the namespace of the server and its custom resources.
const Namespace = "velero"

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	locations  = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backupstoragelocations"}
)

// Site is an installation of cleat: a cluster, a bucket and the cleat binary.
type Site struct {
	Cleat      string          // path of the cleat binary
	PluginDir  string          // directory with plugin binaries, may be missing
	Kubeconfig string          // of the cluster
	S3         controlplane.S3 // a running S3 server
	Bucket     string          // a bucket on it
	WorkDir    string          // for the server's log and scratch files
	Terminal   bool            // the output of the CLI is shown, with its progress bars
}

func (s *Site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Cleat, append(args, "--kubeconfig", s.Kubeconfig, "--namespace", Namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	return cmd
}

// Run runs one CLI command. Its output is shown if Terminal is set, and otherwise only in the error.
func (s *Site) Run(ctx context.Context, args ...string) error {
	cmd := s.command(ctx, args...)
	if s.Terminal {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("cleat %s: %w", strings.Join(args, " "), err)
		}
		return nil
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cleat %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Install creates the objects of an operator: the custom resource definitions, the namespace, the credentials and a
// default backup storage location.
func (s *Site) Install(ctx context.Context, c *world.Client) error {
	if err := s.Run(ctx, "install", "--crds-only"); err != nil {
		return err
	}
	d, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	credentials := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", s.S3.AccessKey,
		s.S3.SecretKey)
	storage := map[string]any{"bucket": s.Bucket}
	if s.S3.CAFile != "" {
		ca, err := os.ReadFile(s.S3.CAFile)
		if err != nil {
			return fmt.Errorf("read the CA of the S3 server: %w", err)
		}
		storage["caCert"] = base64.StdEncoding.EncodeToString(ca)
	}
	for _, step := range []struct {
		r dynamic.ResourceInterface
		o map[string]any
	}{
		{d.Resource(namespaces), map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": Namespace}}},
		{d.Resource(secrets).Namespace(Namespace), map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "cloud-credentials"},
			"data": map[string]any{"cloud": base64.StdEncoding.EncodeToString([]byte(credentials))},
		}},
		{d.Resource(locations).Namespace(Namespace), map[string]any{
			"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": map[string]any{"name": "default"},
			"spec": map[string]any{
				"provider": "cleat.dev/s3", "default": true, "objectStorage": storage,
				"credential": map[string]any{"name": "cloud-credentials", "key": "cloud"},
				"config":     map[string]any{"region": s.S3.Region, "s3Url": s.S3.Endpoint, "s3ForcePathStyle": "true"},
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

// patience limits waits that usually take seconds. It is only reached on a machine under heavy load.
const patience = 10 * time.Minute

// awaitLocation waits until the server has validated the location.
func awaitLocation(ctx context.Context, c *world.Client, server *Server) error {
	d, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	var message string
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if server.ended() {
			return false, errors.New("the server has exited")
		}
		l, err := d.Resource(locations).Namespace(Namespace).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			message = err.Error()
			return false, nil
		}
		phase, _, _ := unstructured.NestedString(l.Object, "status", "phase")
		validated, _, _ := unstructured.NestedString(l.Object, "status", "lastValidationTime")
		message, _, _ = unstructured.NestedString(l.Object, "status", "message")
		at, err := time.Parse(time.RFC3339, validated)
		return phase == "Available" && err == nil && !at.Before(server.started.Truncate(time.Second)), nil
	})
	if err != nil {
		return fmt.Errorf("backup storage location is not available: %w %s; end of the server's log:\n%s", err, message,
			server.Tail())
	}
	return nil
}
