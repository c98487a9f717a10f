package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/cleat-dev/cleat/server/test/world"
)

var (
	restores  = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "restores"}
	transfers = schema.GroupVersionResource{Group: "mover.example.io", Version: "v1", Resource: "datatransfers"}
)

// movers is the scene of Movers.
type movers struct {
	*narrator
	site    Site
	client  *world.Client
	dynamic dynamic.Interface
	server  *Server
	volumes volumes
	vendor  *vendor
}

// Movers backs up, deletes, restores and compares the data of claims with both data movers of the examples, each of
// which moves the claims with a label. It shows the progress with "cleat operations -w", and kills the controller of
// one mover during the work. It uses the custom resource definitions and the location that Run has installed. The
// claims stay.
func Movers(ctx context.Context, o Options) (err error) {
	m := &movers{narrator: &narrator{out: o.Out, start: time.Now()}, site: o.Site}
	m.site.PluginDir = o.Movers
	m.volumes = volumes{dir: filepath.Join(o.WorkDir, "volumes"), namespace: o.World.Prefix + "-volumes"}
	if m.client, err = world.NewClient(o.Kubeconfig); err != nil {
		return err
	}
	if m.dynamic, err = dynamic.NewForConfig(m.client.Config()); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if err := m.volumes.fill(); err != nil {
		return err
	}
	m.step("starting a server with two data movers, and the controller of one of them")
	if m.vendor, err = installVendor(ctx, &m.site, m.volumes.dir); err != nil {
		return err
	}
	if err := m.vendor.start(ctx); err != nil {
		return err
	}
	defer func() { m.vendor.kill() }()
	config, err := m.writeConfig()
	if err != nil {
		return err
	}
	if m.server, err = m.site.Serve(ctx, m.client, "--config", config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.server.Stop()) }()
	if err := m.thereAndBack(ctx); err != nil {
		return fmt.Errorf("%w; end of the server's log:\n%s", err, m.server.Tail())
	}
	return nil
}

// writeConfig writes the configuration of the server, which selects the claims of each mover.
func (m *movers) writeConfig() (path string, err error) {
	path = filepath.Join(m.site.WorkDir, "movers.yaml")
	text := fmt.Sprintf(`apiVersion: cleat.dev/v1
plugins:
  config:
    mover.example.io/volumes: {namespace: %s, selector: tier=db}
    example.cleat.dev/small-mover: {volumes: %q, copies: %q, selector: tier=files}
`, Namespace, m.volumes.dir, filepath.Join(m.site.WorkDir, "copies"))
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// thereAndBack backs up, deletes, restores and compares the claims and their volumes.
func (m *movers) thereAndBack(ctx context.Context) error {
	var created atomic.Int64
	claims := m.volumes.objects()
	if err := m.client.Create(ctx, claims, &created); err != nil {
		return err
	}
	before, err := m.volumes.content()
	if err != nil {
		return err
	}

	name := m.volumes.namespace
	m.step("backing up %d claims with %d MB; the controller is killed on the way, and another one takes over",
		len(m.volumes.tiers()), m.volumes.size()>>20)
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return m.killOnTheWay(both) })
	group.Go(func() error {
		return m.watched(both, backups, name, "backup", "create", name, "--include-namespaces", name)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	m.step("backed up; deleting the claims and their volumes, then restoring them")
	if err := errors.Join(m.client.Delete(ctx, claims), os.RemoveAll(m.volumes.dir)); err != nil {
		return err
	}
	if err := os.Mkdir(m.volumes.dir, 0o755); err != nil {
		return err
	}
	if err := m.watched(ctx, restores, name, "restore", "create", name, "--from-backup", name); err != nil {
		return err
	}
	after, err := m.volumes.content()
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("the volumes in %s differ: %d files before, %d files after", m.volumes.dir, len(before), len(after))
	}
	m.step("all %d files in the volumes are as before", len(before))
	return nil
}

// watched runs a command that creates a backup or restore, and shows its operations until it has completed.
func (m *movers) watched(ctx context.Context, kind schema.GroupVersionResource, name string, command ...string) error {
	if err := m.site.Run(ctx, command...); err != nil {
		return err
	}
	stop, err := m.site.show(ctx, m.out, "operations", "-w", "--"+command[0], name)
	if err != nil {
		return err
	}
	return errors.Join(awaitCompleted(ctx, m.dynamic.Resource(kind).Namespace(Namespace), name), stop())
}

// killOnTheWay kills the controller when it has moved a part of the data, and starts another one.
func (m *movers) killOnTheWay(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			all, err := m.dynamic.Resource(transfers).Namespace(Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			var done int64
			for i := range all.Items {
				moved, _, _ := unstructured.NestedInt64(all.Items[i].Object, "status", "bytesDone")
				done += moved
			}
			return done > 0, nil
		})
	if err != nil {
		return fmt.Errorf("the data mover has moved nothing: %w; its log:\n%s", err, m.vendor.log())
	}
	m.vendor.kill()
	return m.vendor.start(ctx)
}
