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

// files is a template of "go list" that prints the directory of a package, and the files of which a program is made.
const files = `{{if not .Standard}}{{$dir := .Dir}}{{$dir}}{{range .GoFiles}}
{{$dir}}/{{.}}{{end}}{{range .EmbedFiles}}
{{$dir}}/{{.}}{{end}}{{end}}`

// Depend makes the results of the running tests depend on the source of packages, patterns relative to the root of this
// module, and of all that they import. The go command keeps the results of tests for as long as their own source and
// the files at which they have looked are the same. It does not know what other processes read, such as a go command
// that a test runs. Build and its like do this for the programs that they build.
func Depend(t testing.TB, packages ...string) {
	t.Helper()
	root, err := Root()
	require.NoError(t, err)
	list, err := tree{root: root, dir: root}.sources(packages...)
	require.NoError(t, err)
	lookAt(list)
}

// sources returns the files of packages and of all that they import, as far as they are in this tree.
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

// dependOnProgram is Depend for the program at path, whose sources are listed again only if it has been linked again.
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

// buildID returns a hash of the part of a program that holds the ID of its build, which differs if any input does.
func buildID(path string) (string, error) {
	const first = 32 << 10 // bytes, in which the go command looks for the ID as well
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

// lookAt has the testing package note the size and the time of files. Those that are gone count as well.
func lookAt(paths []string) {
	for _, path := range paths {
		_, _ = os.Stat(path)
	}
}
