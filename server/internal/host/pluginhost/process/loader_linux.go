package process

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// explainMissing adds to the error of a start that the kernel has not found the program which runs the file: the loader
// of a dynamically linked program, or the interpreter of a script. The kernel reports that as if the file were missing.
func (b *Binary) explainMissing(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if loader := loaderOf(b.File); loader != "" {
		if _, missing := os.Stat(loader); errors.Is(missing, fs.ErrNotExist) {
			return fmt.Errorf("%w: it is linked dynamically, and its loader %s is not here; build it with CGO_ENABLED=0, "+
				"or run the server's image, which has the loader and libraries of Debian", err, loader)
		}
		return err
	}
	start := make([]byte, maxFirstLine)
	n, _ := b.File.ReadAt(start, 0)
	if args, wrong := firstLine(start[:n]); wrong == nil && args != nil {
		if _, missing := os.Stat(args[0]); errors.Is(missing, fs.ErrNotExist) {
			return fmt.Errorf("%w: its interpreter %s is not here", err, args[0])
		}
	}
	return err
}

// loaderOf returns the program that loads a dynamically linked program, or nothing for other files.
func loaderOf(file io.ReaderAt) string {
	program, err := elf.NewFile(file)
	if err != nil {
		return ""
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(part.Open(), 4096)) // as long as a path can be
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}
