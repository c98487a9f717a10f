package programs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// files is a template of "go list" that prints the directory of a package, and the files from which a program is made.
const files = `{{if not .Standard}}{{$dir := .Dir}}{{$dir}}{{range .GoFiles}}
{{$dir}}/{{.}}{{end}}{{range .EmbedFiles}}
{{$dir}}/{{.}}{{end}}{{end}}`

// Depend makes the results of the running tests depend on the source of packages and of all packages that they import.
// packages are patterns relative to the root of this module. The go command caches the results of tests until their
// own source or the files that they have opened change. It does not track files that other processes read, such as a
// go command that a test runs. Build and similar functions call Depend for the programs that they build.
func Depend(t testing.TB, packages ...string) {
	t.Helper()
	root, err := Root()
	require.NoError(t, err)
	list, err := tree{root: root, dir: root}.sources(packages...)
	require.NoError(t, err)
	lookAt(list)
}

// sources returns the files of packages and of all packages that they import in this tree.
func (b tree) sources(packages ...string) ([]string, error) {
	out, err := b.run(append([]string{"list", "-deps", "-f", files}, packages...)...)
	if err != nil {
		return nil, err
	}
	list := []string{filepath.Join(b.dir, "go.mod"), filepath.Join(b.dir, "go.sum")}
	for path := range strings.SplitSeq(string(out), "\n") {
		if within, err := filepath.Rel(b.root, path); err == nil && filepath.IsLocal(within) {
			list = append(list, path)
		}
	}
	return list, nil
}

// dependOnProgram is Depend for the program at path. The sources are listed again only if it was linked again.
func (b tree) dependOnProgram(pkg, path string) error {
	id, err := buildID(path)
	if err != nil {
		return err
	}
	name := path + ".sources"
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if of, list, _ := strings.Cut(string(text), "\n"); of == id {
		lookAt(strings.Split(list, "\n"))
		return nil
	}
	list, err := b.sources(pkg)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".part", []byte(id+"\n"+strings.Join(list, "\n")), 0o600); err != nil {
		return err
	}
	lookAt(list)
	return os.Rename(name+".part", name)
}

// buildID returns a hash of the part of a program with the ID of its build, which differs if any input does.
func buildID(path string) (string, error) {
	const first = 32 << 10 // in bytes; the go command looks for the ID in the same range
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(file, first)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// lookAt makes the testing package record the size and the time of files. Missing files count as well.
func lookAt(paths []string) {
	for _, path := range paths {
		_, _ = os.Stat(path)
	}
}
