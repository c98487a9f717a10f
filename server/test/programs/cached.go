package programs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// cached returns the path of a program that the go command does not build. build builds it in an empty directory and
// returns its path there. It is called if the text of version, or a file that inputs match, has changed since the last
// build. inputs are patterns relative to the root of this module. The caller must not change the program.
func cached(name, version string, inputs []string, build func(dir string) (string, error)) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, root, version)
	for _, pattern := range inputs {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			_, _ = fmt.Fprintf(sum, "%s %d\n", file, len(content))
			_, _ = sum.Write(content)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "cleat", "test-programs", name)
	lock, err := lockDir(dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	path := filepath.Join(dir, hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	temporary, err := os.MkdirTemp("", name)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temporary)
	built, err := build(temporary)
	if err != nil {
		return "", err
	}
	if err := CopyFile(built, path+".part"); err != nil {
		return "", err
	}
	return path, os.Rename(path+".part", path)
}

// NodePlugin returns the path of the plugin in JavaScript, which build builds in an empty directory. The caller must
// not change it.
func NodePlugin(build func(ctx context.Context, dir string) (string, error)) (string, error) {
	node, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("node --version: %w", err)
	}
	inputs := []string{
		"examples/node-plugin/*.mjs", "examples/node-plugin/*.json", "examples/node-plugin/.npmrc",
		"examples/node-plugin/host/*.proto",
		"proto/*/*/*.proto", "proto/*/*/*/*.proto",
	}
	return cached("node-plugin", string(node), inputs,
		func(dir string) (string, error) { return build(context.Background(), dir) })
}
