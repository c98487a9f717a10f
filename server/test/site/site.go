package site

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

// Plane is a control plane with the definitions of the server.
type Plane struct {
	controlplane.Shared
	install    sync.Once
	errInstall error
}

// Shared is the control plane of the tests of a package. With "make test", all packages with servers use the same one.
var Shared = Plane{Shared: controlplane.Shared{Servers: true}}

// inParallel is the number of tests that run at the same time. They mostly wait: for the deadline of a plugin, for a
// lease, for the start of a server.
const inParallel = 6

// Main runs the tests of a package, calls stop, and returns the exit code.
func Main(m *testing.M, stop ...func() int) int {
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
	// More than a thousand processes have small heaps, and would otherwise collect garbage from their start.
	_ = os.Setenv("GOGC", "400")
	code := Shared.Main(m)
	for _, stop := range stop {
		code = max(code, stop())
	}
	_ = os.RemoveAll(dir)
	return code
}

// Program returns the path of the program under test.
func Program(t *testing.T) string {
	t.Helper()
	return programs.Build(t, "server/cmd/cleat")
}

// Installed returns the control plane, on which "cleat install" has run once.
func (p *Plane) Installed(t *testing.T) *controlplane.Cluster {
	t.Helper()
	program, cluster := Program(t), p.Get(t)
	p.install.Do(func() {
		out, err := exec.Command(program, "install", "--crds-only", "--kubeconfig", cluster.Kubeconfig).CombinedOutput()
		if err != nil {
			p.errInstall = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, p.errInstall)
	return cluster
}

// Site is a separate installation: a namespace, a location, a bucket.
type Site struct {
	T          *testing.T
	Cluster    *controlplane.Cluster
	Client     client.Client
	Namespace  string
	BucketDir  string // directory with the objects as files
	Kubeconfig string
	Shop       string // a namespace to back up
	// Its servers run at the same time; otherwise each gets the lease at once, because the previous server is dead.
	Several   bool
	Resources []string // of the backups that tests begin; all resources by default

	ServerKubeconfig string   // empty for kubeconfig
	Environment      []string // of its servers, in addition to that of the test
}

// New installs the definitions and creates a namespace with a default location on S3, or on files.
func New(t *testing.T, provider string) *Site {
	t.Helper()
	return NewIn(t, Shared.Installed(t), provider)
}

// NewIn is newSite in a cluster that has the definitions. The provider "aws" is Velero's plugin for S3.
func NewIn(t *testing.T, cluster *controlplane.Cluster, provider string) *Site {
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
	s := &Site{T: t, Cluster: cluster, Client: c, Namespace: namespace.Name, Kubeconfig: cluster.Kubeconfig}
	location := &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "default"},
		Spec:       velerov1.BackupStorageLocationSpec{Provider: provider, Default: true},
	}
	bucket := cluster.NewBucket(t, "cleat")
	switch provider {
	case "cleat.dev/s3", "aws":
		s.BucketDir = filepath.Join(cluster.S3.Dir, bucket)
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "cloud-credentials"},
			StringData: map[string]string{"cloud": fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n",
				cluster.S3.AccessKey, cluster.S3.SecretKey)},
		}
		require.NoError(t, c.Create(t.Context(), secret))
		location.Spec.Credential = &velerov1.SecretKeySelector{Name: secret.Name, Key: "cloud"}
		location.Spec.Config = map[string]string{"region": cluster.S3.Region, "s3Url": cluster.S3.Endpoint,
			"s3ForcePathStyle": "true"}
	case "cleat.dev/file":
		root := t.TempDir()
		s.BucketDir = filepath.Join(root, bucket)
		require.NoError(t, os.Mkdir(s.BucketDir, 0o755))
		location.Spec.Config = map[string]string{"path": root}
	}
	location.Spec.ObjectStorage = &velerov1.ObjectStorageLocation{Bucket: bucket}
	require.NoError(t, c.Create(t.Context(), location))
	return s
}

// Run runs a command and returns its output.
func (s *Site) Run(args ...string) (stdout, stderr string, err error) {
	s.T.Helper()
	var out, errs bytes.Buffer
	args = patiently(args)
	if !slices.Contains(args, "--kubeconfig") {
		args = append(args, "--kubeconfig", s.Kubeconfig, "--namespace", s.Namespace)
	}
	cmd := exec.CommandContext(s.T.Context(), Program(s.T), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// patiently gives a command that waits for a reply of the server enough time for a busy machine.
func patiently(args []string) []string {
	const waits = `^(queue|queue explain|operations|plugin (get|info|order)|(backup|restore) (describe|logs)|backup download)( |$)`
	if slices.Contains(args, "--timeout") || slices.Contains(args, "simulate") || slices.Contains(args, "--plugin-dir") ||
		!regexp.MustCompile(waits).MatchString(strings.Join(args, " ")) {
		return args
	}
	return append(slices.Clone(args), "--timeout", "5m")
}

// Must runs a command that has to succeed.
func (s *Site) Must(args ...string) string {
	s.T.Helper()
	out, errs, err := s.Run(args...)
	require.NoError(s.T, err, "cleat %s\n%s%s", strings.Join(args, " "), out, errs)
	return out
}

// Available waits until the server reports the location as available.
func (s *Site) Available() {
	s.T.Helper()
	s.Eventually("the location is available", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: "default"}, &location)
		return location.Status.Phase == velerov1.BackupStorageLocationPhaseAvailable, err
	})
}

// Eventually calls ask until it returns true without an error. The pauses between the calls grow, because several
// waiting tests would otherwise slow down the API server for their servers.
func (s *Site) Eventually(what string, ask func(ctx context.Context) (bool, error)) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), 5*time.Minute)
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
			require.Fail(s.T, "not in time: "+what, "last error: %v", last)
		case <-time.After(controlplane.Pause(began)):
		}
	}
}
