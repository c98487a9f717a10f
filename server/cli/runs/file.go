package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/download"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// ErrNoFile reports that the bucket does not hold a file.
var ErrNoFile = errors.New("file not found")

// urlPoll is the time between two looks for the URL.
const urlPoll = 50 * time.Millisecond

// mostCopied is the size up to which a file is kept on this machine, in bytes.
const mostCopied = 2 << 30

// Target names a file of a backup or restore.
type Target struct {
	Kind     velerov1.DownloadTargetKind
	Name     string // of the backup or restore
	Location string // of the file
	// Annotations are the annotations of the request.
	Annotations map[string]string
}

// String returns the target for messages.
func (t Target) String() string { return fmt.Sprintf("%s %s", t.Kind, t.Name) }

// File is a file in object storage, or of this machine. It must be closed.
type File struct {
	target  Target
	address *url.URL
	client  *http.Client
	size    int64   // of what Open has opened; -1 if it is not known
	tag     string  // of the content of which a range was read
	whole   Content // the file itself; nil if it is elsewhere and has not been copied
}

// Content is a file of this machine.
type Content interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// File asks the server for the URL of a file. It trusts the CA of the location as well.
func (d *Downloads) File(ctx context.Context, cluster *command.Cluster, target Target) (*File, error) {
	address, err := d.address(ctx, cluster, target)
	if err != nil {
		return nil, err
	}
	f := &File{target: target, address: address}
	if address.Scheme == "file" {
		local, err := os.Open(address.Path)
		if errors.Is(err, fs.ErrNotExist) { // the server has looked
			return nil, fmt.Errorf("download %s: %s is a file on the machine of the server; give the server an address for "+
				"downloads with --download-url",
				target, address.Path)
		}
		if err != nil {
			return nil, err
		}
		f.whole = local
		return f, nil
	}
	transport, err := d.transport(ctx, cluster, target.Location)
	if err != nil {
		return nil, err
	}
	f.client = &http.Client{Transport: transport}
	return f, nil
}

// address asks the server for a URL. The server deletes the request when the URL has expired.
func (d *Downloads) address(ctx context.Context, cluster *command.Cluster, target Target) (*url.URL, error) {
	request := &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cutName(target.Name) + "-" + uuid.NewString(),
			Annotations: target.Annotations},
		Spec: velerov1.DownloadRequestSpec{Target: velerov1.DownloadTarget{Kind: target.Kind, Name: target.Name}},
	}
	if err := cluster.Create(ctx, request); err != nil {
		return nil, fmt.Errorf("ask the server for the URL of %s: %w", target, err)
	}
	err := wait.PollUntilContextTimeout(ctx, urlPoll, d.timeout, false, func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.DownloadURL != "", err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("the server has made no URL of %s within %s: is it running? Its log says why", target,
			d.timeout)
	}
	if err != nil {
		return nil, err
	}
	switch reason, missing, unavailable := download.Reason(request.Status.DownloadURL); {
	case missing:
		return nil, ErrNoFile
	case unavailable:
		return nil, fmt.Errorf("the server has no URL of %s: %s", target, reason)
	}
	address, err := url.Parse(request.Status.DownloadURL)
	if err != nil {
		return nil, fmt.Errorf("parse the URL that the server made: %w", err)
	}
	return address, nil
}

// cutName shortens the name of an object so that a UUID fits behind it.
func cutName(name string) string {
	return name[:min(len(name), 253-37)]
}

// Close releases what File holds.
func (f *File) Close() error {
	if f.whole == nil {
		return nil
	}
	return f.whole.Close()
}

// Open returns the content from its beginning, as it is stored.
func (f *File) Open(ctx context.Context) (io.ReadCloser, error) {
	if f.whole != nil {
		info, err := f.whole.Stat()
		if err != nil {
			return nil, err
		}
		f.size = info.Size()
		return io.NopCloser(io.NewSectionReader(f.whole, 0, info.Size())), nil
	}
	response, err := f.send(ctx, "")
	if err != nil {
		return nil, err
	}
	f.size = response.ContentLength
	return response.Body, nil
}

// Size returns the size of what Open has opened in bytes, -1 if it is not known.
func (f *File) Size() int64 { return f.size }

// send requests the content, or a range of it. The answer is 200, or 206 for a range; or an error.
func (f *File) send(ctx context.Context, byteRange string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.address.String(), nil)
	if err != nil {
		return nil, err
	}
	if byteRange != "" {
		request.Header.Set("Range", byteRange)
		if f.tag != "" {
			request.Header.Set("If-Match", f.tag)
		}
	}
	response, err := f.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("download %s: reach the object storage (see --cacert for its certificate): %w", f.target, err)
	}
	if response.StatusCode == http.StatusOK || byteRange != "" && response.StatusCode == http.StatusPartialContent {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // only read from
	switch response.StatusCode {
	case http.StatusNotFound:
		return nil, ErrNoFile
	case http.StatusPreconditionFailed:
		return nil, fmt.Errorf("download %s: the file was replaced while it was read, try again", f.target)
	}
	message, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // as far as it can be read
	return nil, fmt.Errorf("download %s: the object storage answered %s: %s", f.target, response.Status, message)
}

// Tail returns the last n bytes, or all if there are fewer, and the size of the file.
func (f *File) Tail(ctx context.Context, n int64) (content []byte, size int64, err error) {
	if f.whole == nil {
		response, err := f.send(ctx, fmt.Sprintf("bytes=-%d", n))
		if err != nil {
			return nil, 0, err
		}
		if response.StatusCode == http.StatusPartialContent {
			return f.tail(response, n)
		}
		if err := f.copy(response); err != nil {
			return nil, 0, err
		}
	}
	info, err := f.whole.Stat()
	if err != nil {
		return nil, 0, err
	}
	return manifest.NewRanger(f.whole, info.Size()).Tail(ctx, n)
}

// tail reads the answer to a request for the last n bytes.
func (f *File) tail(response *http.Response, n int64) (content []byte, size int64, err error) {
	defer func() { _ = response.Body.Close() }() // only read from
	first, last, size, err := contentRange(response)
	if err != nil || last != size-1 || last-first+1 != min(n, size) {
		return nil, 0, fmt.Errorf("download %s: the object storage answered with the wrong range %q", f.target,
			response.Header.Get("Content-Range"))
	}
	content = make([]byte, last-first+1)
	if _, err := io.ReadFull(response.Body, content); err != nil {
		return nil, 0, fmt.Errorf("download %s: %w", f.target, err)
	}
	if tag := response.Header.Get("ETag"); !strings.HasPrefix(tag, "W/") {
		f.tag = tag
	}
	return content, size, nil
}

// ReadRange returns length bytes from offset on.
func (f *File) ReadRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	if f.whole == nil {
		response, err := f.send(ctx, fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
		if err != nil {
			return nil, err
		}
		if response.StatusCode == http.StatusPartialContent {
			if first, last, _, err := contentRange(response); err != nil || first != offset || last != offset+length-1 {
				_ = response.Body.Close() // only read from
				return nil, fmt.Errorf("download %s: the object storage answered with the wrong range %q", f.target,
					response.Header.Get("Content-Range"))
			}
			return response.Body, nil
		}
		if err := f.copy(response); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(io.NewSectionReader(f.whole, offset, length)), nil
}

// copy keeps the whole content, because the object storage does not send ranges.
func (f *File) copy(response *http.Response) error {
	defer func() { _ = response.Body.Close() }() // only read from
	whole, err := spool.New("", f.target.String())
	if err != nil {
		return err
	}
	n, err := io.Copy(whole, io.LimitReader(response.Body, mostCopied+1))
	if err == nil && n > mostCopied {
		err = fmt.Errorf("it has more than %d bytes", int64(mostCopied))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("download %s: %w", f.target, err), whole.Close())
	}
	f.whole = whole
	return nil
}

// contentRange returns the first and last byte of a partial answer, and the size of the whole.
func contentRange(response *http.Response) (first, last, size int64, err error) {
	_, err = fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size)
	return first, last, size, err
}

// Local returns the file on this machine, and its size; nil if it is elsewhere.
func (f *File) Local() (file Content, size int64) {
	if f.whole == nil {
		return nil, 0
	}
	info, err := f.whole.Stat()
	if err != nil {
		return nil, 0
	}
	return f.whole, info.Size()
}

// LocalFile returns a file of this machine as a File, which closes it.
func LocalFile(file Content) *File { return &File{whole: file} }

var _ manifest.Ranger = (*File)(nil)
