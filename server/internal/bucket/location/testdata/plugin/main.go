// Command plugin is an external plugin for the tests: a file store whose process dies, or finds the disk
// full, in the middle of an upload.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
)

// limit is how many bytes of an object get through.
const limit = 1 << 20

func main() {
	stderr := os.Stderr // Serve puts another one there, which does not outlive an os.Exit
	config := framework.WithConfig(filestore.Config{})
	framework.Serve(
		objectstorev1.Register("example.io/sound", filestore.Construct, config),
		objectstorev1.Register("example.io/dies",
			around(func(body io.Reader) io.Reader { return &deadly{body: body, left: limit, stderr: stderr} }), config),
		objectstorev1.Register("example.io/full", around(func(body io.Reader) io.Reader {
			// The kernel refuses to make a file larger than this, as on a disk that is full.
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
				fmt.Fprintln(stderr, err)
				os.Exit(1)
			}
			return body
		}), config),
	)
}

// store is a file store that alters uploads.
type store struct {
	objectstorev1.ObjectStore
	change func(io.Reader) io.Reader
}

func around(
	change func(io.Reader) io.Reader,
) func(context.Context, *framework.Setup) (objectstorev1.ObjectStore, error) {
	return func(ctx context.Context, setup *framework.Setup) (objectstorev1.ObjectStore, error) {
		inner, err := filestore.Construct(ctx, setup)
		return store{ObjectStore: inner, change: change}, err
	}
}

func (s store) PutObject(ctx context.Context, input *objectstorev1.PutObjectInput) error {
	changed := *input
	changed.Body = s.change(input.Body)
	return s.ObjectStore.PutObject(ctx, &changed)
}

// deadly ends the process after some bytes.
type deadly struct {
	body   io.Reader
	left   int
	stderr io.Writer
}

func (d *deadly) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	if d.left -= n; d.left < 0 {
		fmt.Fprintln(d.stderr, "fatal: the tape drive is on fire")
		os.Exit(7)
	}
	return n, err
}
