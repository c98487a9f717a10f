package pluginimage

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cleat-dev/cleat/server/pluginlock"
)

// folder is the directory of an image whose files its container copies to the server.
const folder = "plugins"

// These limits keep a damaged or hostile image from filling the disk.
const (
	mostBytes   = 4 << 30
	mostFiles   = 200
	mostEntries = 500_000
)

// File is a file of an image, extracted.
type File struct {
	Name   string `json:"path"` // below the plugin directory, with slashes
	SHA256 string `json:"sha256"`
}

// Extract writes the plugin files of the image to an empty directory: those below /plugins, as a container that copies them would see
// them.
func (i *Image) Extract(dir string) ([]File, error) {
	files, err := i.extract(dir)
	if err != nil {
		return nil, fmt.Errorf("take the plugin files out of image %s (%s): %w", i.Ref, i.Digest, err)
	}
	return files, nil
}

func (i *Image) extract(dir string) ([]File, error) {
	config, err := i.image.ConfigFile()
	if err != nil {
		return nil, err
	}
	if config.Architecture != "" && (config.Architecture != i.platform.Architecture || config.OS != i.platform.OS) {
		return nil, fmt.Errorf("%w: it is for %s/%s, this machine is %s; use an image that is built for it", errPlatform, config.OS, config.Architecture, i.platform)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	layers, err := i.image.Layers()
	if err != nil {
		return nil, err
	}
	x := extraction{root: root, links: map[string]string{}, hidden: map[string]bool{}}
	for _, layer := range slices.Backward(layers) {
		if err := x.layer(layer); err != nil {
			return nil, err
		}
	}
	if err := x.follow(); err != nil {
		return nil, err
	}
	return x.finish(i.platform)
}

// extraction is the state of Extract.
type extraction struct {
	root  *os.Root
	names []string
	links map[string]string // name to the path in the image that it leads to
	bytes int64

	hidden map[string]bool // paths that the layers above have removed or replaced
}

// Names by which a layer removes what is in the layers below it.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// layer takes the files of a layer that no layer above it has hidden.
func (x *extraction) layer(layer v1.Layer) (err error) {
	stream, err := layer.Uncompressed()
	if err != nil {
		return fmt.Errorf("read its layers: %w", err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	var removed []string // in the layers below
	archive := tar.NewReader(stream)
	for range mostEntries {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			for _, at := range removed {
				x.hidden[at] = true
			}
			_, err := io.Copy(io.Discard, stream) // compares the content with its digest at the end
			return err
		}
		if err != nil {
			return fmt.Errorf("read its layers: %w", err)
		}
		at := path.Clean("/" + header.Name)
		dir, base := path.Split(at)
		switch {
		case base == opaque:
			removed = append(removed, path.Clean(dir))
		case strings.HasPrefix(base, whiteout):
			removed = append(removed, dir+strings.TrimPrefix(base, whiteout))
		case x.hides(at):
		default:
			if err := x.entry(at, header, archive); err != nil {
				return err
			}
			if header.Typeflag != tar.TypeDir {
				removed = append(removed, at)
			}
		}
	}
	return fmt.Errorf("a layer has more than %d files", mostEntries)
}

// hides reports whether a layer above has removed or replaced a path, or a directory above it.
func (x *extraction) hides(at string) bool {
	for ; at != "/"; at = path.Dir(at) {
		if x.hidden[at] {
			return true
		}
	}
	return false
}

// entry takes a file if it is below the folder.
func (x *extraction) entry(at string, header *tar.Header, content io.Reader) error {
	if at == "/"+folder && header.Typeflag != tar.TypeDir {
		return fmt.Errorf("its /%s is not a directory", folder)
	}
	relative, inside := strings.CutPrefix(at, "/"+folder+"/")
	if !inside {
		return nil
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return x.root.MkdirAll(relative, 0o755)
	case tar.TypeReg:
		return x.write(relative, header.Mode, content)
	case tar.TypeSymlink:
		target := header.Linkname
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(at), target)
		}
		x.links[relative] = path.Clean(target)
		return nil
	case tar.TypeLink:
		x.links[relative] = path.Clean("/" + header.Linkname)
		return nil
	default:
		return fmt.Errorf("its %s is neither a file nor a link", at)
	}
}

// write writes a file that only its owner can change.
func (x *extraction) write(relative string, mode int64, content io.Reader) (err error) {
	if len(x.names) == mostFiles {
		return fmt.Errorf("it has more than %d files below /%s", mostFiles, folder)
	}
	if dir := path.Dir(relative); dir != "." {
		if err := x.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	file, err := x.root.OpenFile(relative, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(mode&0o755|0o600))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := io.Copy(file, io.LimitReader(content, mostBytes-x.bytes+1))
	if err != nil {
		return fmt.Errorf("read /%s/%s: %w", folder, relative, err)
	}
	if x.bytes += n; x.bytes > mostBytes {
		return fmt.Errorf("its files below /%s have more than %d bytes", folder, int64(mostBytes))
	}
	x.names = append(x.names, relative)
	return file.Sync()
}

// follow replaces links by the files that they lead to.
func (x *extraction) follow() error {
	for link := range x.links {
		target := "/" + folder + "/" + link
		for range x.links {
			if next, again := x.links[strings.TrimPrefix(target, "/"+folder+"/")]; again {
				target = next
			}
		}
		relative, inside := strings.CutPrefix(target, "/"+folder+"/")
		if !inside || !slices.Contains(x.names, relative) {
			return fmt.Errorf("its /%s/%s is a link to %s, which is no file below /%s; the image has to have the file itself", folder, link, x.links[link], folder)
		}
		if err := x.copy(relative, link); err != nil {
			return err
		}
	}
	return nil
}

func (x *extraction) copy(from, to string) error {
	source, err := x.root.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	return x.write(to, int64(info.Mode().Perm()), source)
}

// finish checks the files and returns them, sorted.
func (x *extraction) finish(platform v1.Platform) ([]File, error) {
	slices.Sort(x.names)
	files := make([]File, 0, len(x.names))
	executables := 0
	for _, relative := range x.names {
		sum, executable, err := x.check(relative, platform)
		if err != nil {
			return nil, fmt.Errorf("its /%s/%s: %w", folder, relative, err)
		}
		if executable {
			executables++
		}
		files = append(files, File{Name: relative, SHA256: sum})
	}
	if executables == 0 {
		return nil, fmt.Errorf("it has no executable files below /%s, so it is no image of plugins", folder)
	}
	return files, nil
}

// check returns the sum of a file, and whether it is executable.
func (x *extraction) check(relative string, platform v1.Platform) (sum string, executable bool, err error) {
	file, err := x.root.Open(filepath.FromSlash(relative))
	if err != nil {
		return "", false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", false, err
	}
	if err := checkMachine(file, platform); err != nil {
		return "", false, err
	}
	sum, err = pluginlock.Sum(file)
	return sum, info.Mode()&0o111 != 0, err
}

// machines are the values of ELF for the architectures of Go.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{
		"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "386": elf.EM_386, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "riscv64": elf.EM_RISCV,
	}
}

// checkMachine returns an error if a file is a program for another machine, whatever the image says of itself.
func checkMachine(file io.ReaderAt, platform v1.Platform) error {
	program, err := elf.NewFile(file)
	if err != nil {
		return nil //nolint:nilerr // it is a script, or a program of another system
	}
	if want, known := machines()[platform.Architecture]; known && program.Machine != want {
		return fmt.Errorf("it is a program for another architecture (%s), although the image is for %s; use an image that is built for it", program.Machine, platform)
	}
	return nil
}
