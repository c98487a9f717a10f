package nodeagent_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/setup/release"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/csidriver"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// The images on a node.
const (
	treeImage  = "tree.invalid/tree:1"
	cleatImage = "cleat.invalid/cleat:v1" // with the contents of a release, and the libraries of the restic of tests
)

// plane is a control plane with the definitions of custom resources. The first test that needs a shared component
// installs it.
type plane struct {
	controlplane.Shared
	disks csidriver.Driver // its files are in the directory of the cluster

	definitions, driver, images, velero once
}

// once runs a function once for several tests.
type once struct {
	sync.Once
	err error
}

// do runs the function in the first call. It fails each test that calls it if the function fails.
func (o *once) do(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	o.Do(func() { o.err = f(context.WithoutCancel(t.Context())) })
	require.NoError(t, o.err)
}

func (p *plane) connect(t *testing.T) client.WithWatch {
	t.Helper()
	cluster := p.Get(t)
	p.definitions.do(t, func(ctx context.Context) error {
		program, err := programs.Link("server/cmd/cleat")
		if err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, program, "install", "--crds-only", "--kubeconfig",
			cluster.Kubeconfig).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	scheme, err := app.Scheme()
	require.NoError(t, err)
	require.NoError(t, errors.Join(snapshotv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// serveDisks installs the CSI driver in the cluster, on its node too, with a class of snapshots.
func (p *plane) serveDisks(t *testing.T, c client.Client) {
	t.Helper()
	cluster := p.Get(t)
	p.driver.do(t, func(ctx context.Context) error {
		p.disks.Dir = filepath.Join(cluster.Dir, "csi")
		if _, err := p.disks.Serve(p.Options.CSISocket); err != nil {
			return err
		}
		if cluster.Node != nil {
			if _, err := p.disks.ServeNode(cluster); err != nil {
				return err
			}
		}
		return csidriver.Install(ctx, cluster, c)
	})
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "chosen", Labels: map[string]string{velerov1.VolumeSnapshotClassKey: "true"}},
		Driver:     csidriver.Name, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
	retry(t, "the class of snapshots is created", func(ctx context.Context) error {
		// The definition may just have been installed.
		return client.IgnoreAlreadyExists(c.Create(ctx, class))
	})
}

// importImages makes the images available on the node.
func (p *plane) importImages(t *testing.T) {
	t.Helper()
	cluster := p.Get(t)
	p.images.do(t, func(ctx context.Context) error {
		tree, errTree := programs.Link("server/test/pods/testdata/tree")
		cleat, errCleat := programs.Link("server/cmd/cleat")
		if err := errors.Join(errTree, errCleat); err != nil {
			return err
		}
		image, err := productImage("cleat", "", cleat)
		if err != nil {
			return err
		}
		layer, err := pods.Layer(libraries(programs.Restic(t)))
		if err != nil {
			return err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return err
		}
		return errors.Join(pods.Import(ctx, cluster, treeImage, tree), pods.ImportImage(ctx, cluster, cleatImage, image))
	})
}

var absolute = regexp.MustCompile(`/\S+`)

// libraries returns the shared libraries of a program, by their paths: none for a static one, such as the restic of a
// release. Debian's is dynamic.
func libraries(program string) map[string]string {
	files := map[string]string{}
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return files
	}
	for _, path := range absolute.FindAllString(string(out), -1) {
		files[strings.TrimPrefix(path, "/")] = path
	}
	return files
}

// productImage returns the image of a product in a release, with programs that are already built.
func productImage(name, copier string, programs ...string) (v1.Image, error) {
	products, err := release.Select([]string{name})
	if err != nil {
		return nil, err
	}
	return products[0].Of("v1", v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}, copier, programs...).Image()
}
