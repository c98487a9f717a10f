package runs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

// Downloads fetches files of backups and restores from object storage, from URLs that the server makes.
type Downloads struct {
	timeout  time.Duration // for the server to make the URL
	insecure bool
	caFile   string
	most     int64 // bytes of a file that is decoded as a whole; 0 for as many as the server decodes
}

// mostInPage is what a page of the console decodes of a file, in bytes. It shows the files of many backups at once, and
// whoever writes to the bucket may have made them.
const mostInPage = 64 << 20

// NewDownloads returns downloads for pages of the console. timeout is how long to wait for the server to make a URL.
func NewDownloads(timeout time.Duration) *Downloads {
	return &Downloads{timeout: timeout, most: mostInPage}
}

// Timeout returns how long to wait for an answer of the server.
func (d *Downloads) Timeout() time.Duration { return d.timeout }

// Add adds the flags of a command that downloads files.
func (d *Downloads) Add(flags *pflag.FlagSet, timeout time.Duration) {
	flags.DurationVar(&d.timeout, "timeout", timeout, "how long to wait for an answer of the server")
	flags.BoolVar(&d.insecure, "insecure-skip-tls-verify", false, "do not check the certificate of the object storage")
	flags.StringVar(&d.caFile, "cacert", "", "file of CA certificates of the object storage")
}

// open opens a file and decompresses it. It trusts the CA of the given location as well.
func (d *Downloads) open(
	ctx context.Context, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name, location string,
) (io.ReadCloser, error) {
	return d.OpenTarget(ctx, cluster, Target{Kind: kind, Name: name, Location: location})
}

// OpenTarget opens a file of a backup or restore and decompresses it. It trusts the CA of the location as well.
func (d *Downloads) OpenTarget(ctx context.Context, cluster *command.Cluster, target Target) (io.ReadCloser, error) {
	file, err := d.File(ctx, cluster, target)
	if err != nil {
		return nil, err
	}
	body, err := file.Open(ctx)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	plain, err := gzip.NewReader(body)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("download %s: %w", target, err), body.Close(), file.Close())
	}
	return &decompressed{Reader: plain, body: body, file: file}, nil
}

// transport returns a transport that trusts the CAs of the system, of --cacert, and of the location.
func (d *Downloads) transport(
	ctx context.Context, cluster *command.Cluster, location string,
) (http.RoundTripper, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	caFile, of := d.caFile, "--cacert"
	if caFile == "" {
		config, err := command.ReadClientConfig()
		if err != nil {
			return nil, err
		}
		if caFile, err = config.Text("cacert"); err != nil {
			return nil, err
		}
		of = "cacert of the client's configuration"
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of, err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM form", of, caFile)
		}
	}
	var bsl velerov1.BackupStorageLocation
	if err := cluster.Get(ctx, cluster.Key(location), &bsl); err == nil && bsl.Spec.ObjectStorage != nil {
		pool.AppendCertsFromPEM(bsl.Spec.ObjectStorage.CACert)
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// the files are compressed themselves
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{RootCAs: pool, InsecureSkipVerify: d.insecure, MinVersion: tls.VersionTLS12}, //nolint:gosec // asked for
	}, nil
}

// copyFile writes a file of a backup or restore to w.
func (d *Downloads) copyFile(
	ctx context.Context, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name, location string, w io.Writer,
) error {
	body, err := d.open(ctx, cluster, kind, name, location)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, body)
	return cmp.Or(err, body.Close())
}

// decompressed is a file whose Close closes the compressed body.
type decompressed struct {
	*gzip.Reader
	body, file io.Closer
}

func (u *decompressed) Close() error { return errors.Join(u.body.Close(), u.file.Close()) }

// fetch reads a JSON file of a backup or restore. It returns the zero value for a file that does not exist.
func fetch[T any](
	ctx context.Context, d *Downloads, cluster *command.Cluster, kind velerov1.DownloadTargetKind, name, location string,
) (T, error) {
	return fetchTarget[T](ctx, d, cluster, Target{Kind: kind, Name: name, Location: location})
}

// fetchTarget is fetch for a target.
func fetchTarget[T any](ctx context.Context, d *Downloads, cluster *command.Cluster, target Target) (T, error) {
	var none T
	body, err := d.OpenTarget(ctx, cluster, target)
	if errors.Is(err, ErrNoFile) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	value, err := decode[T](body, d.limitsOf(target.Kind))
	if err := cmp.Or(err, body.Close()); err != nil {
		return none, fmt.Errorf("read %s: %w", target, err)
	}
	return value, nil
}

// limitsOf bounds a file that is decoded as a whole.
func (d *Downloads) limitsOf(kind velerov1.DownloadTargetKind) foreign.Limits {
	limits := store.LimitsOf(kind)
	if d.most > 0 {
		limits.Bytes = min(limits.Bytes, d.most)
	}
	return limits
}

// decode decodes a file. Go writes null for a list or a map without elements.
func decode[T any](file io.Reader, limits foreign.Limits) (T, error) {
	var value, none T
	text, err := io.ReadAll(io.LimitReader(file, limits.Bytes+1))
	if err != nil || string(bytes.TrimSpace(text)) == "null" {
		return none, err
	}
	if err := foreign.Unmarshal(text, &value, limits); err != nil {
		return none, err
	}
	return value, nil
}
