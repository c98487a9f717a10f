package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

const (
	namespaces = 8  // with config maps that are backed up
	configMaps = 25 // in each
	operations = 3  // started for the first of them
	bucket     = "chaos"
)

// space returns the name of the n-th namespace.
func space(n int) string { return fmt.Sprintf("shop-%d", n) }

// site consists of two servers, and of the API server and S3 that they reach through proxies.
type site struct {
	client  client.WithWatch // reaches the API server without a proxy
	folder  string           // of the backups in the bucket
	work    string
	api, s3 *proxy
	servers []*server
}

func newSite(ctx context.Context, cluster *controlplane.Cluster, o options) (*site, error) {
	if err := os.Mkdir(filepath.Join(cluster.S3.Dir, bucket), 0o755); err != nil {
		return nil, err
	}
	s := &site{folder: filepath.Join(cluster.S3.Dir, bucket, "backups"), work: o.work}
	var err error
	if s.api, err = newProxy(cluster.APIServer); err != nil {
		return nil, err
	}
	if s.s3, err = newProxy(cluster.S3.Endpoint); err != nil {
		return nil, err
	}
	kubeconfig, err := s.proxiedKubeconfig(cluster.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := s.connect(cluster.Kubeconfig); err != nil {
		return nil, err
	}
	installed := roundtrip.Site{Cleat: o.cleat, Kubeconfig: cluster.Kubeconfig, S3: cluster.S3, Bucket: bucket,
		WorkDir: o.work}
	installed.S3.Endpoint = s.s3.url
	w, err := world.NewClient(cluster.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := installed.Install(ctx, w); err != nil {
		return nil, err
	}
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	for n := range 2 {
		s.servers = append(s.servers, newServer(o, kubeconfig, n))
	}
	return s, nil
}

// proxiedKubeconfig writes a kubeconfig file for the servers.
func (s *site) proxiedKubeconfig(original string) (string, error) {
	config, err := clientcmd.LoadFromFile(original)
	if err != nil {
		return "", err
	}
	for _, c := range config.Clusters {
		c.Server = s.api.url
	}
	path := filepath.Join(s.work, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

func (s *site) connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{velerov1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	s.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return err
}

// operationsDir returns the directory in which the plugins store their operations.
func operationsDir(work string) string { return filepath.Join(work, "operations") }

// fill creates the objects to back up.
func (s *site) fill(ctx context.Context) error {
	for n := range namespaces {
		if err := s.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space(n)}}); err != nil {
			return err
		}
		for m := range configMaps {
			settings := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: space(n), Name: fmt.Sprintf("settings-%02d", m),
					Labels: map[string]string{"app": "shop"}},
				Data: map[string]string{"text": strings.Repeat("chaos ", 50)},
			}
			if m < operations {
				settings.Labels["worker"], settings.Annotations = "keyed", map[string]string{"work/length": "2s"}
			}
			if err := s.client.Create(ctx, settings); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal ends all faults.
func (s *site) heal() {
	s.api.set(pass)
	s.s3.set(pass)
	for _, server := range s.servers {
		server.signal(syscall.SIGCONT)
	}
}

func (s *site) stopServers() {
	var all sync.WaitGroup
	for _, server := range s.servers {
		all.Go(server.stop)
	}
	all.Wait()
}

func (s *site) close() {
	s.api.close()
	s.s3.close()
}

// server is a process of the server that is restarted after its end, as by a Deployment.
type server struct {
	start func() (*exec.Cmd, error)
	ended chan struct{} // closed when keep has returned

	mu      sync.Mutex
	cmd     *exec.Cmd // nil if no process runs
	stopped bool
	exits   int // without a signal from this process
	killed  bool
}

func newServer(o options, kubeconfig string, n int) *server {
	dir := filepath.Join(o.work, fmt.Sprintf("server-%d", n))
	return &server{ended: make(chan struct{}), start: func() (*exec.Cmd, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		log, err := os.OpenFile(dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		cmd := exec.Command(o.cleat, "server", "--kubeconfig", kubeconfig, "--namespace", roundtrip.Namespace,
			"--plugin-dir", o.plugins, "--metrics-address", "127.0.0.1:0", "--concurrent-backups", fmt.Sprint(limit),
			"--backup-attempts", "1000", "--restore-attempts", "1000", "--leader-elect-lease-duration", "4s",
			"--store-validation-frequency", "5s")
		cmd.Env = append(os.Environ(), "VELERO_SCRATCH_DIR="+dir, "TMPDIR="+dir, "WITNESS_FILE="+filepath.Join(dir, "items"),
			"WITNESS_PAUSE=20ms",
			"WORK_DIR="+operationsDir(o.work))
		cmd.Stdout, cmd.Stderr = log, log
		return cmd, cmd.Start()
	}}
}

// keep runs the process until the server is stopped.
func (v *server) keep() {
	defer close(v.ended)
	for {
		v.mu.Lock()
		if v.stopped {
			v.mu.Unlock()
			return
		}
		cmd, err := v.start()
		if err == nil {
			v.cmd, v.killed = cmd, false
		}
		v.mu.Unlock()
		if err == nil {
			_ = cmd.Wait()
			v.mu.Lock()
			if v.cmd = nil; !v.killed && !v.stopped {
				v.exits++
			}
			v.mu.Unlock()
		}
		time.Sleep(time.Second)
	}
}

// signal sends a signal to the process, if there is one.
func (v *server) signal(sig syscall.Signal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cmd != nil {
		v.killed = v.killed || sig == syscall.SIGKILL || sig == syscall.SIGTERM
		_ = v.cmd.Process.Signal(sig)
	}
}

// pid returns the id of the process, or 0.
func (v *server) pid() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cmd == nil {
		return 0
	}
	return v.cmd.Process.Pid
}

func (v *server) stop() {
	v.mu.Lock()
	v.stopped = true
	v.mu.Unlock()
	v.signal(syscall.SIGTERM)
	select {
	case <-v.ended:
	case <-time.After(time.Minute):
		v.signal(syscall.SIGKILL)
		<-v.ended
	}
}
