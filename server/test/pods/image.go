package pods

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// Import makes an image of static programs for the pods of a cluster. The programs are in / of the image, and a
// container runs the first one. Pods need imagePullPolicy Never or IfNotPresent.
func Import(ctx context.Context, cluster *controlplane.Cluster, reference string, programs ...string) error {
	files := map[string]string{}
	for _, program := range programs {
		files[filepath.Base(program)] = program
	}
	layer, err := Layer(files)
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: v1.Config{Entrypoint: []string{"/" + filepath.Base(programs[0])}},
	})
	if err == nil {
		image, err = mutate.AppendLayers(image, layer)
	}
	if err != nil {
		return fmt.Errorf("make the image %s: %w", reference, err)
	}
	return ImportImage(ctx, cluster, reference, image)
}

// Layer returns a layer of an image, with a directory for temporary files, and with files of the machine by their paths
// in the image.
func Layer(files map[string]string) (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	const open = 0o1777 // the mode of /tmp
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: open}); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[path])
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
}

// ImportImage makes an image available to the pods of a cluster under a reference.
func ImportImage(ctx context.Context, cluster *controlplane.Cluster, reference string, image v1.Image) (err error) {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cleat-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "image.tar")
	if err := tarball.WriteToFile(file, tag, image); err != nil {
		return err
	}
	ctr := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, cluster.Node.Ctr,
			append([]string{"--address", cluster.Node.Containerd, "--namespace", "k8s.io", "images"},
				args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("import the image %s: %w: %s", reference, err, out)
		}
		return string(out), err
	}
	if _, err := ctr("import", "--no-unpack", file); err != nil {
		return err
	}
	for { // until the part of containerd that serves the kubelet has it, too
		known, err := ctr("list", "--quiet", `labels."io.cri-containerd.image"==managed`)
		if err != nil || slices.Contains(strings.Fields(known), tag.Name()) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
