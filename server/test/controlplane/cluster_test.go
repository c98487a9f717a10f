package controlplane

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
)

var plane Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// client returns an HTTPS client that trusts only the CA in caFile.
func client(t *testing.T, caFile string) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(caFile)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem), "the CA file has no certificate")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 5 * time.Minute}
}

// call sends a request as the cluster's admin and returns status and body.
func call(t *testing.T, c *Cluster, method, path, body string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.APIServer+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+c.Token)
	r.Header.Set("Content-Type", "application/json")
	response, err := client(t, c.CAFile).Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, data
}

func createConfigMap(t *testing.T, c *Cluster, name string) {
	t.Helper()
	status, body := call(t, c, http.MethodPost, "/api/v1/namespaces/default/configmaps",
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":"b"}}`, name))
	require.Equal(t, http.StatusCreated, status, "%s", body)
}

// s3Call sends a signed request and returns the status of the response.
func s3Call(t *testing.T, s S3, client *http.Client, method, url, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(body))
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	keys := aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey}
	require.NoError(t, signer.NewSigner().SignHTTP(t.Context(), keys, r, hex.EncodeToString(sum[:]), "s3", s.Region,
		time.Now()))
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	return response.StatusCode
}

func TestStartAndControlComponents(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	var log bytes.Buffer
	c, err := Start(t.Context(), Options{S3TLS: true, APIServerFlags: []string{"--max-requests-inflight=77"}, Log: &log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })

	list := func() int {
		return s3Call(t, c.S3, client(t, c.S3.CAFile), http.MethodGet, c.S3.Endpoint+"/", "")
	}
	require.True(t, strings.HasPrefix(c.S3.Endpoint, "https://"), c.S3.Endpoint)
	require.Equal(t, http.StatusOK, list(), "the certificate must be signed by the CA in CAFile")

	createConfigMap(t, c, "outlives")
	for _, do := range [][2]string{
		{"restart", APIServer}, {"kill", APIServer}, {"start", APIServer},
		{"kill", Etcd}, {"start", Etcd}, {"restart", ControllerManager}, {"stop", S3Server},
	} {
		require.NoError(t, c.Do(t.Context(), do[0], do[1]), "%s %s", do[0], do[1])
	}
	_, err = net.Dial("tcp", strings.TrimPrefix(c.S3.Endpoint, "https://"))
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "a stopped server must not listen")
	require.NoError(t, c.Do(t.Context(), "start", S3Server))
	require.Equal(t, http.StatusOK, list())

	for _, wrong := range []struct{ verb, component, want string }{
		{"start", S3Server, "s3 is running already"},
		{"start", "kubelet", "unknown component"},
		{"pause", S3Server, "unknown command"},
		{"stop s3\nstop", S3Server, "one word each"},
	} {
		require.ErrorContains(t, c.Do(t.Context(), wrong.verb, wrong.component), wrong.want)
	}

	status, body := call(t, c, http.MethodGet, "/api/v1/namespaces/default/configmaps/outlives", "")
	require.Equal(t, http.StatusOK, status, "%s", body)

	pids := children(t, c.launcher.Process.Pid)
	require.Len(t, pids, 4)
	require.NoError(t, c.Stop())
	require.NoError(t, c.Stop(), "a second Stop must do nothing")
	require.NoDirExists(t, c.Dir)
	for _, pid := range pids {
		require.False(t, alive(t, pid), "process %d", pid)
	}
	require.ErrorContains(t, c.Do(t.Context(), "start", S3Server), "stopped")
	require.NotContains(t, log.String(), "ended by itself")
}

func TestKilledLauncherLeavesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: needs a control plane")
	}
	c, err := Start(t.Context(), Options{Node: true})
	processes := 6
	if errors.Is(err, ErrNoNode) {
		t.Log(err)
		c, err = Start(t.Context(), Options{})
		processes = 4
	}
	require.NoError(t, err)
	pids := children(t, c.launcher.Process.Pid)
	require.Len(t, pids, processes)
	require.NoError(t, c.launcher.Process.Kill())
	require.ErrorContains(t, c.Stop(), "killed")
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !alive(t, pid) }, 5*time.Minute, 10*time.Millisecond)
	}

	next, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	// The start of another package's cluster may be removing the files.
	require.Eventually(t, func() bool { _, err := os.Stat(c.Dir); return os.IsNotExist(err) }, 5*time.Minute,
		10*time.Millisecond,
		"the next start must remove the files")
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(c.Dir) + "*")
	require.NoError(t, err)
	require.Empty(t, groups, "the next start must remove the control groups")
	require.DirExists(t, plane.Get(t).Dir, "the files of a running cluster must be kept")
	require.NoError(t, next.Stop())
}

// children returns the processes whose parent is pid.
func children(t *testing.T, pid int) []int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	var found []int
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if os.IsNotExist(err) {
			continue // a thread that has ended
		}
		require.NoError(t, err)
		for field := range strings.FieldsSeq(string(data)) {
			child, err := strconv.Atoi(field)
			require.NoError(t, err)
			found = append(found, child)
		}
	}
	return found
}

// alive reports whether a process is running. A zombie is not.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, ok := strings.Cut(string(data), ") ")
	require.True(t, ok, "%s", data)
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}
