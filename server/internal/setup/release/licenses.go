package release

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// packagesOf is the template by which the go command lists the packages of a program: module, version, directory of the
// module and that of the package. Modules of this tree have no version.
const packagesOf = `{{if .Standard}}std{{"\t\t"}}{{context.GOROOT}}{{"\t"}}{{context.GOROOT}}{{else}}` +
	`{{with .Module}}{{with .Replace}}{{.Path}}{{"\t"}}{{.Version}}{{else}}{{.Path}}{{"\t"}}{{.Version}}{{end}}` +
	`{{"\t"}}{{.Dir}}{{end}}{{"\t"}}{{.Dir}}{{end}}`

// isLicense matches the names of files that say under which terms code may be distributed.
var isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([.-].*)?$`)

// licenses returns the licenses of everything that a program contains, each text once, after the modules that it is of.
// packages is the output of the go command for packagesOf. A module without a license is an error.
func licenses(root, version string, packages []byte) ([]byte, error) {
	const standard, own = "the standard library of Go", "github.com/cleat-dev/cleat"
	of, seen, found := map[string][]string{}, map[string]bool{}, map[string]bool{}
	var texts []string
	add := func(module, file string) error {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := strings.TrimSpace(string(content))
		if of[text] == nil {
			texts = append(texts, text)
		}
		if name := module + ": " + filepath.Base(file); !slices.Contains(of[text], name) {
			of[text] = append(of[text], name)
		}
		found[module] = true
		return nil
	}
	lines := slices.Sorted(strings.Lines(string(packages)))
	for _, line := range slices.Compact(lines) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("the go command lists a package without its module: %q", line)
		}
		module, home, dir := strings.TrimSpace(fields[0]+" "+fields[1]), fields[2], fields[3]
		switch {
		case fields[0] == "std":
			module = standard
		case fields[1] == "":
			module, home, dir = own+" "+version, root, root
		}
		for ; !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			files, err := licenseFiles(dir)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				if err := add(module, file); err != nil {
					return nil, err
				}
			}
			if dir == home {
				break
			}
		}
		if !found[module] {
			return nil, fmt.Errorf("%s has no license in %s, so a program that contains it cannot be distributed", module, home)
		}
	}
	if len(texts) == 0 {
		return nil, errors.New("the go command lists no packages")
	}
	var out bytes.Buffer
	for _, text := range texts {
		fmt.Fprintf(&out, "=== %s\n\n%s\n\n", strings.Join(of[text], "\n=== "), text)
	}
	return out.Bytes(), nil
}

func licenseFiles(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		isCode := filepath.Ext(entry.Name()) == ".go"
		if entry.Type()&fs.ModeType == 0 && !isCode && isLicense.MatchString(entry.Name()) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths, nil
}
