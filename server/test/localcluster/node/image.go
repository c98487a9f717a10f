package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// writeSandboxImage writes an archive with the image of the container that holds the namespaces of a pod. The image
// contains this program, which then only waits.
func writeSandboxImage(path string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("making the image of sandboxes: %w", err)
	}
	layer, err := archive(file{"pause", content, 0o755})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "config": object{"Entrypoint": []string{"/pause", "pause"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]object{{"Config": "config.json", "RepoTags": []string{sandboxImage},
		"Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	image, err := archive(file{"config.json", config, 0o644}, file{"layer.tar", layer, 0o644},
		file{"manifest.json", manifest, 0o644})
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

type file struct {
	name    string
	content []byte
	mode    int64
}

func archive(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
