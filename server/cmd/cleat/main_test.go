package main_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// plane is a control plane with the definitions of the server.
type plane struct {
	controlplane.Shared
	install    sync.Once
	errInstall error
}

// shared is the control plane of the tests of this package. That with the volumes of a CSI driver is another one,
// because the resources of snapshots would be part of every other backup.
var shared, storage, kitchens plane

// inParallel is the number of tests that run at the same time. Most of their time they wait: for the deadline of a
// plugin, for a lease, for a server to start.
const inParallel = 6

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(max(inParallel, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
	}
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "cleat-test-*")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("TMPDIR", dir) // a killed server leaves its temporary files
	// more than a thousand processes with small heaps, which would otherwise collect garbage from their start
	_ = os.Setenv("GOGC", "400")
	storage.Options.CSISocket = filepath.Join(dir, "csi.sock")
	code := max(shared.Main(m), besideVelero.stop(), storage.Stop(), kitchens.Stop())
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// cleat returns the path of the program under test.
func cleat(t *testing.T) string {
	t.Helper()
	return programs.Build(t, "server/cmd/cleat")
}

// get returns the control plane, on which "cleat install" has run once.
func (p *plane) get(t *testing.T) *controlplane.Cluster {
	t.Helper()
	program, cluster := cleat(t), p.Get(t)
	p.install.Do(func() {
		out, err := exec.Command(program, "install", "--crds-only", "--kubeconfig", cluster.Kubeconfig).CombinedOutput()
		if err != nil {
			p.errInstall = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, p.errInstall)
	return cluster
}

// site is a separate installation: a namespace, a location, a bucket.
type site struct {
	t          *testing.T
	cluster    *controlplane.Cluster
	client     client.Client
	namespace  string
	bucketDir  string // directory with the objects as files
	kubeconfig string
	shop       string // a namespace to back up
	// its servers run at the same time; otherwise each gets the lease at once, because the one before is dead
	several   bool
	resources []string // of the backups that tests begin; all resources by default

	serverKubeconfig string   // empty for kubeconfig
	environment      []string // of its servers, in addition to that of the test
}

// newSite installs the definitions and creates a namespace with a default location on S3, or on files.
func newSite(t *testing.T, provider string) *site {
	t.Helper()
	return newSiteIn(t, shared.get(t), provider)
}

// newSiteIn is newSite in a cluster that has the definitions. The provider "aws" is Velero's plugin for S3.
func newSiteIn(t *testing.T, cluster *controlplane.Cluster, provider string) *site {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	scheme, err := app.Scheme()
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cleat-"}}
	require.NoError(t, c.Create(t.Context(), namespace))
	s := &site{t: t, cluster: cluster, client: c, namespace: namespace.Name, kubeconfig: cluster.Kubeconfig}
	location := &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "default"},
		Spec:       velerov1.BackupStorageLocationSpec{Provider: provider, Default: true},
	}
	bucket := cluster.NewBucket(t, "cleat")
	switch provider {
	case "cleat.dev/s3", "aws":
		s.bucketDir = filepath.Join(cluster.S3.Dir, bucket)
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cloud-credentials"},
			StringData: map[string]string{"cloud": fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n",
				cluster.S3.AccessKey, cluster.S3.SecretKey)},
		}
		require.NoError(t, c.Create(t.Context(), secret))
		location.Spec.Credential = &velerov1.SecretKeySelector{Name: secret.Name, Key: "cloud"}
		location.Spec.Config = map[string]string{"region": cluster.S3.Region, "s3Url": cluster.S3.Endpoint,
			"s3ForcePathStyle": "true"}
	case "cleat.dev/file":
		root := t.TempDir()
		s.bucketDir = filepath.Join(root, bucket)
		require.NoError(t, os.Mkdir(s.bucketDir, 0o755))
		location.Spec.Config = map[string]string{"path": root}
	}
	location.Spec.ObjectStorage = &velerov1.ObjectStorageLocation{Bucket: bucket}
	require.NoError(t, c.Create(t.Context(), location))
	return s
}

// run runs a command and returns its output.
func (s *site) run(args ...string) (stdout, stderr string, err error) {
	s.t.Helper()
	var out, errs bytes.Buffer
	args = patiently(args)
	if !slices.Contains(args, "--kubeconfig") {
		args = append(args, "--kubeconfig", s.kubeconfig, "--namespace", s.namespace)
	}
	cmd := exec.CommandContext(s.t.Context(), cleat(s.t), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// patiently gives a command that waits for an answer of the server the time that a busy machine takes.
func patiently(args []string) []string {
	const waits = `^(queue|queue explain|operations|plugin (get|info|order)|(backup|restore) (describe|logs)|backup download)( |$)`
	if slices.Contains(args, "--timeout") || slices.Contains(args, "simulate") || slices.Contains(args, "--plugin-dir") ||
		!regexp.MustCompile(waits).MatchString(strings.Join(args, " ")) {
		return args
	}
	return append(slices.Clone(args), "--timeout", "5m")
}

// must runs a command that has to succeed.
func (s *site) must(args ...string) string {
	s.t.Helper()
	out, errs, err := s.run(args...)
	require.NoError(s.t, err, "cleat %s\n%s%s", strings.Join(args, " "), out, errs)
	return out
}

// available waits until the server reports the location as available.
func (s *site) available() {
	s.t.Helper()
	s.eventually("the location is available", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "default"}, &location)
		return location.Status.Phase == velerov1.BackupStorageLocationPhaseAvailable, err
	})
}

// eventually calls ask until it returns true without an error. It asks the less often the longer it waits, because
// several tests that wait for their servers would otherwise keep the API server from serving these.
func (s *site) eventually(what string, ask func(ctx context.Context) (bool, error)) {
	s.t.Helper()
	const shortest, longest = 50 * time.Millisecond, 250 * time.Millisecond
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	var last error
	for began := time.Now(); ; {
		ok, err := ask(ctx)
		if ok && err == nil {
			return
		}
		last = err
		select {
		case <-ctx.Done():
			require.Fail(s.t, "not in time: "+what, "last error: %v", last)
		case <-time.After(min(max(shortest, time.Since(began)/5), longest)):
		}
	}
}
