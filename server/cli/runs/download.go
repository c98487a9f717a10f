package runs

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/download"
)

// Downloads fetches files of backups and restores from object storage, from URLs that the server makes.
type Downloads struct {
	timeout  time.Duration // for the server to make the URL
	insecure bool
	caFile   string
}

func (d *Downloads) add(flags *pflag.FlagSet, timeout time.Duration) {
	flags.DurationVar(&d.timeout, "timeout", timeout, "how long to wait for the server to make the URL")
	flags.BoolVar(&d.insecure, "insecure-skip-tls-verify", false, "do not check the certificate of the object storage")
	flags.StringVar(&d.caFile, "cacert", "", "file of CA certificates of the object storage")
}

// open opens a file and decompresses it. It trusts the CA of the given location as well.
func (d *Downloads) open(ctx context.Context, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name, location string) (io.ReadCloser, error) {
	address, err := d.address(ctx, cluster, kind, name)
	if err != nil {
		return nil, err
	}
	body, err := d.get(ctx, cluster, address, location)
	if err != nil {
		return nil, fmt.Errorf("download %s of %s: %w", kind, name, err)
	}
	plain, err := gzip.NewReader(body)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("download %s of %s: %w", kind, name, err), body.Close())
	}
	return &decompressed{Reader: plain, body: body}, nil
}

// address asks the server for a URL. The server deletes the request when the URL has expired.
func (d *Downloads) address(ctx context.Context, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name string) (*url.URL, error) {
	request := &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cutName(name) + "-" + uuid.NewString()},
		Spec:       velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{Kind: kind, Name: name}},
	}
	if err := cluster.Create(ctx, request); err != nil {
		return nil, fmt.Errorf("ask the server for the URL of %s %s: %w", kind, name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, urlPoll, d.timeout, false, func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.DownloadURL != "", err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("the server has made no URL of %s %s within %s: is it running? Its log says why", kind, name, d.timeout)
	}
	if err != nil {
		return nil, err
	}
	switch reason, missing, unavailable := download.Reason(request.Status.DownloadURL); {
	case missing:
		return nil, errNoFile
	case unavailable:
		return nil, fmt.Errorf("the server has no URL of %s %s: %s", kind, name, reason)
	}
	address, err := url.Parse(request.Status.DownloadURL)
	if err != nil {
		return nil, fmt.Errorf("parse the URL that the server made: %w", err)
	}
	return address, nil
}

// get reads from http, https and file URLs.
func (d *Downloads) get(ctx context.Context, cluster *command.Cluster, address *url.URL, location string) (io.ReadCloser, error) {
	if address.Scheme == "file" {
		file, err := os.Open(address.Path)
		if errors.Is(err, fs.ErrNotExist) { // the server has looked
			return nil, fmt.Errorf("%s is a file on the machine of the server; give the server an address for downloads with --download-url", address.Path)
		}
		return file, err
	}
	transport, err := d.transport(ctx, cluster, location)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("reach the object storage (see --cacert for its certificate): %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }() // only read from
	if response.StatusCode == http.StatusNotFound {
		return nil, errNoFile
	}
	message, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // as far as it can be read
	return nil, fmt.Errorf("the object storage answered %s: %s", response.Status, message)
}

// transport returns a transport that trusts the system's CAs, those of --cacert, and the one in the location.
func (d *Downloads) transport(ctx context.Context, cluster *command.Cluster, location string) (http.RoundTripper, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if d.caFile != "" {
		pem, err := os.ReadFile(d.caFile)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--cacert: %s holds no certificate in PEM form", d.caFile)
		}
	}
	var bsl velerov1.BackupStorageLocation
	if err := cluster.Get(ctx, cluster.Key(location), &bsl); err == nil && bsl.Spec.ObjectStorage != nil {
		pool.AppendCertsFromPEM(bsl.Spec.ObjectStorage.CACert)
	}
	return &http.Transport{
		Proxy:              http.ProxyFromEnvironment,
		DisableCompression: true,                                                                                     // the files are compressed themselves
		TLSClientConfig:    &tls.Config{RootCAs: pool, InsecureSkipVerify: d.insecure, MinVersion: tls.VersionTLS12}, //nolint:gosec // asked for
	}, nil
}

// copyFile writes a file of a backup or restore to w.
func (d *Downloads) copyFile(ctx context.Context, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name, location string, w io.Writer) error {
	body, err := d.open(ctx, cluster, kind, name, location)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, body)
	return cmp.Or(err, body.Close())
}

// errNoFile reports that the bucket does not hold a file.
var errNoFile = errors.New("file not found")

// urlPoll is the time between two looks for the URL.
const urlPoll = 50 * time.Millisecond

// decompressed is a file whose Close closes the compressed body.
type decompressed struct {
	*gzip.Reader
	body io.Closer
}

func (u *decompressed) Close() error { return u.body.Close() }

// cutName shortens the name of an object so that a UUID fits behind it.
func cutName(name string) string {
	return name[:min(len(name), 253-37)]
}

// fetch reads a JSON file of a backup or restore. It returns the zero value for a file that does not exist.
func fetch[T any](ctx context.Context, d *Downloads, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name, location string) (T, error) {
	var value, none T
	body, err := d.open(ctx, cluster, kind, name, location)
	if errors.Is(err, errNoFile) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	err = json.NewDecoder(body).Decode(&value)
	if err := cmp.Or(err, body.Close()); err != nil {
		return none, fmt.Errorf("read %s of %s: %w", kind, name, err)
	}
	return value, nil
}
