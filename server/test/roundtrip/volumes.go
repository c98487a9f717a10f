package roundtrip

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/server/test/world"
)

const (
	filesPerVolume = 150
	fileSize       = 80 << 10
)

// volumes are the volumes of some claims, directories at NAMESPACE/CLAIM.
type volumes struct{ dir, namespace string }

// tiers returns the values of the label "tier" of the claims, by which the movers select theirs.
func (volumes) tiers() map[string]string {
	return map[string]string{"orders": "db", "customers": "db", "pictures": "files", "letters": "files"}
}

// size returns the bytes in all volumes.
func (v volumes) size() int { return len(v.tiers()) * filesPerVolume * fileSize }

// objects returns the claims and their namespace.
func (v volumes) objects() []world.Object {
	object := func(resource string, o map[string]any) world.Object {
		return world.Object{Unstructured: &unstructured.Unstructured{Object: o}, Resource: resource,
			Manager: "kubectl-create"}
	}
	all := []world.Object{object("namespaces", map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": v.namespace},
	})}
	for name, tier := range v.tiers() {
		all = append(all, object("persistentvolumeclaims", map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": map[string]any{"name": name, "namespace": v.namespace, "labels": map[string]any{"tier": tier}},
			"spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "",
				"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			},
		}))
	}
	return all
}

// fill writes files with random bytes.
func (v volumes) fill() error {
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, fileSize)
	for name := range v.tiers() {
		for i := range filesPerVolume {
			path := filepath.Join(v.dir, v.namespace, name, fmt.Sprintf("shelf-%d", i%7), fmt.Sprintf("file-%03d", i))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			_, _ = random.Read(content) // never fails
			if err := os.WriteFile(path, content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// content describes each file by its path.
func (v volumes) content() (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(v.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		bytes, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all[path] = fmt.Sprintf("%s %s %x", info.Mode(), info.ModTime(), sha256.Sum256(bytes))
		return nil
	})
	return all, err
}
