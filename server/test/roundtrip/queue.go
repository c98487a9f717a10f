package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/cleat-dev/cleat/server/test/world"
)

var backups = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}

// queued is a backup of consecutive namespaces of the world.
type queued struct {
	name        string
	first, last int
}

// eight returns the backups of Queue: billing overlaps accounts, delivery overlaps catalog, and the last overlaps all.
func eight() []queued {
	return []queued{
		{"accounts", 0, 4}, {"billing", 4, 6}, {"catalog", 7, 10}, {"delivery", 10, 12},
		{"mail", 13, 15}, {"orders", 16, 18}, {"reports", 19, 19}, {"whole-shop", 0, 19},
	}
}

// Queue starts a server with three concurrent backups, creates eight backups of the world that Run has left in the
// cluster, and shows them with "cleat queue -w" until all have ended.
func Queue(ctx context.Context, o Options) (err error) {
	n := &narrator{out: o.Out, start: time.Now()}
	client, err := world.NewClient(o.Kubeconfig)
	if err != nil {
		return err
	}
	d, err := dynamic.NewForConfig(client.Config())
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	resource := d.Resource(backups).Namespace(Namespace)
	n.step("starting a server that runs three backups at once")
	server, err := o.Serve(ctx, client, "--concurrent-backups", "3")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	n.step("creating eight backups, and watching the queue with \"cleat queue -w\"")
	stop, err := o.show(ctx, o.Out, "queue", "-w")
	if err != nil {
		return err
	}
	for _, b := range eight() {
		if _, err := resource.Create(ctx, b.object(o.World), metav1.CreateOptions{}); err != nil {
			return errors.Join(fmt.Errorf("create backup %s: %w", b.name, err), stop())
		}
	}
	if err := errors.Join(awaitEnds(ctx, resource), stop()); err != nil {
		return fmt.Errorf("%w; end of the server's log:\n%s", err, server.Tail())
	}
	n.step("all eight are completed")
	return nil
}

// object returns the Backup.
func (q queued) object(w world.Spec) *unstructured.Unstructured {
	var included []any
	for n := q.first; n <= q.last; n++ {
		included = append(included, w.Namespace(n))
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": map[string]any{"name": q.name},
		"spec": map[string]any{"includedNamespaces": included},
	}}
}

// show starts a command that prints until stop interrupts it like Ctrl-C.
func (s *Site) show(ctx context.Context, out io.Writer, args ...string) (stop func() error, err error) {
	what := "cleat " + strings.Join(args, " ")
	cmd := s.command(context.WithoutCancel(ctx), args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return func() error {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}, nil
}

// awaitEnds waits until the backups of Queue are Completed. It returns an error if one has ended otherwise.
func awaitEnds(ctx context.Context, resource dynamic.ResourceInterface) error {
	for _, b := range eight() {
		if err := awaitCompleted(ctx, resource, b.name); err != nil {
			return err
		}
	}
	return nil
}

// awaitCompleted waits until a backup or restore is Completed. It returns an error if it has ended otherwise.
func awaitCompleted(ctx context.Context, resource dynamic.ResourceInterface, name string) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			got, err := resource.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			phase, _, _ := unstructured.NestedString(got.Object, "status", "phase")
			if strings.Contains(phase, "Failed") {
				return false, fmt.Errorf("%s %s has ended as %s", got.GetKind(), name, phase)
			}
			return phase == "Completed", nil
		})
}
