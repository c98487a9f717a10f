package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/owners"
)

// interpreter is the program that runs a script.
type interpreter struct {
	file *os.File
	args []string // its name and its arguments before the path of the script
}

// CheckInterpreter returns an error if an interpreter runs the file, and a user other than root and the server's user
// can change the interpreter, or the server cannot determine which one it is. A missing interpreter is an error of the
// start.
func (b *Binary) CheckInterpreter() error {
	i, err := b.interpreter()
	if i != nil {
		_ = i.file.Close()
	}
	if errors.As(err, new(*DistrustError)) {
		return err
	}
	return nil
}

// interpreter opens the interpreter that the first line of a script names. It returns nil for a file that is no script.
func (b *Binary) interpreter() (*interpreter, error) {
	start := make([]byte, maxFirstLine)
	n, _ := b.File.ReadAt(start, 0)
	args, err := firstLine(start[:n])
	if args == nil || err != nil {
		return nil, err
	}
	file, way, err := owners.Open(args[0])
	if err != nil {
		return nil, fmt.Errorf("find its interpreter: %w", err)
	}
	if err := way.Check(nil); err != nil {
		_ = file.Close()
		return nil, distrust("its interpreter %s is not trusted: %w", args[0], err)
	}
	if _, err := file.ReadAt(start[:2], 0); err == nil && isScript(start) {
		_ = file.Close()
		return nil, distrust("its interpreter %s is a script; name a program in the first line", args[0])
	}
	return &interpreter{file: file, args: args}, nil
}

func distrust(format string, args ...any) error { return &DistrustError{fmt.Errorf(format, args...)} }

// maxFirstLine is how much of a script the kernel reads for the first line.
const maxFirstLine = 256

func isScript(start []byte) bool { return bytes.HasPrefix(start, []byte("#!")) }

// firstLine returns the interpreter that the start of a file names, with its arguments. It returns nil if the file is
// not a script. It looks up the program of env in PATH.
func firstLine(start []byte) ([]string, error) {
	if !isScript(start) {
		return nil, nil
	}
	line, _, whole := strings.Cut(string(start[2:]), "\n")
	if !whole && len(start) >= maxFirstLine {
		return nil, distrust("its first line %q is too long, want at most %d bytes", line, maxFirstLine)
	}
	name, argument, _ := strings.Cut(strings.Trim(line, " \t"), " ")
	argument = strings.Trim(argument, " \t")
	switch {
	case !filepath.IsAbs(name):
		return nil, distrust("its first line %q names no interpreter, want #!/path/to/interpreter or #!/usr/bin/env NAME",
			line)
	case filepath.Base(name) == "env":
		return fromEnv(line, argument)
	case argument == "":
		return []string{name}, nil
	}
	return []string{name, argument}, nil
}

// fromEnv does what env would do with its argument.
func fromEnv(line, argument string) ([]string, error) {
	words := []string{argument}
	if split, is := strings.CutPrefix(argument, "-S"); is {
		words = strings.Fields(split)
	}
	if len(words) == 0 || words[0] == "" || words[0][0] == '-' || strings.ContainsAny(words[0], " =") ||
		strings.ContainsAny(argument, `"'\$#`) {
		return nil, distrust("its first line %q is not understood, want #!/usr/bin/env NAME or #!/usr/bin/env -S NAME "+
			"ARGUMENT..., without "+
			"quotes and variables", line)
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, fmt.Errorf("find its interpreter: %w", err)
	}
	return append([]string{path}, words[1:]...), nil
}
