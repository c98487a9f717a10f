package pluginimage

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

// folder is the directory of an image whose files its container copies to the server.
const folder = "plugins"

// limits keep a damaged or hostile image from filling the disk and the memory, and from taking the time of the machine.
type limits struct {
	layers  int
	entries int   // of all layers
	name    int   // bytes of the name of an entry; the kernel takes no longer paths
	stream  int64 // decompressed bytes of all layers
	ratio   int64 // decompressed bytes of a layer for each of its bytes, beyond the first slack
	slack   int64

	files   int   // below the folder, with links
	removed int   // of them, by a layer
	bytes   int64 // of these files
	path    int   // bytes of a path below the folder
	depth   int   // of such a path
}

func defaultLimits() limits {
	return limits{
		layers: 200, entries: 500_000, name: 4096, stream: 8 << 30, ratio: 100, slack: 1 << 30,
		files: 200, removed: 2500, bytes: 4 << 30, path: 512, depth: 16,
	}
}

// mostConfig is the largest configuration of an image that is read, in bytes.
const mostConfig = 4 << 20

// File is a file of an image, extracted.
type File struct {
	Name   string `json:"path"` // below the plugin directory, with slashes
	SHA256 string `json:"sha256"`
	// Executable is set if a server takes the file for a plugin.
	Executable bool `json:"-"`
}

// Extract writes the plugin files of the image to an empty directory, as a container that copies them would see them:
// those below /plugins, or, in an image without them, the programs at its root and those that its entrypoint names.
func (i *Image) Extract(dir string) ([]File, error) {
	files, err := i.extract(dir)
	if err != nil {
		return nil, fmt.Errorf("take the plugin files out of image %s (%s): %w", i.Ref, i.Digest, err)
	}
	return files, nil
}

func (i *Image) extract(dir string) ([]File, error) {
	most := defaultLimits()
	manifest, err := i.image.Manifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Layers) > most.layers {
		return nil, fmt.Errorf("it has %d layers, at most %d are read", len(manifest.Layers), most.layers)
	}
	if manifest.Config.Size > mostConfig {
		return nil, fmt.Errorf("its configuration has %d bytes, at most %d are read", manifest.Config.Size, mostConfig)
	}
	config, err := i.image.ConfigFile()
	if err != nil {
		return nil, err
	}
	if config.Architecture != "" && (config.Architecture != i.platform.Architecture || config.OS != i.platform.OS) {
		return nil, fmt.Errorf("%w: it is for %s/%s, this machine is %s; use an image that is built for it", errPlatform,
			config.OS, config.Architecture, i.platform)
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
	if len(layers) != len(manifest.Layers) {
		return nil, fmt.Errorf("it has %d layers, and its manifest %d", len(layers), len(manifest.Layers))
	}
	x := newExtraction(root, most)
	for {
		for n, layer := range slices.Backward(layers) {
			if err := x.layer(layer, manifest.Layers[n].Size); err != nil {
				return nil, err
			}
		}
		if len(x.names)+len(x.links) > 0 || x.named != nil {
			break
		}
		x = newExtraction(root, most)
		x.named = namedBy(config.Config)
	}
	if err := x.follow(); err != nil {
		return nil, err
	}
	return x.finish(i.platform)
}

// namedBy returns the paths in the arguments of the program that a container of the image runs, which copies them. The
// program itself is not among them, with false.
func namedBy(config v1.Config) map[string]bool {
	named := map[string]bool{}
	for n, argument := range slices.Concat(config.Entrypoint, config.Cmd) {
		separates := func(r rune) bool { return strings.ContainsRune(" \t\n;&|\"'()", r) }
		for _, word := range strings.FieldsFunc(argument, separates) {
			if !path.IsAbs(word) {
				word = path.Join("/", config.WorkingDir, word)
			}
			if at := path.Clean(word); !named[at] {
				named[at] = n > 0
			}
		}
	}
	return named
}

// extraction is the state of Extract.
type extraction struct {
	most  limits
	root  *os.Root
	names map[string]bool
	links map[string]string // name to the path in the image that it leads to
	bytes int64             // of the files
	// named has the paths in the arguments of the entrypoint, if the image has nothing in the folder: the programs among
	// them are taken, and those at the root. nil takes the files of the folder.
	named map[string]bool

	entries int
	stream  int64           // bytes of the layers
	hidden  map[string]bool // paths of the folder, or above it, that the layers above have removed or replaced
}

func newExtraction(root *os.Root, most limits) *extraction {
	return &extraction{most: most, root: root, names: map[string]bool{}, links: map[string]string{},
		hidden: map[string]bool{}}
}

// layer takes the files of a layer that has size bytes.
func (x *extraction) layer(layer v1.Layer, size int64) (err error) {
	stream, err := layer.Uncompressed()
	if err != nil {
		return fmt.Errorf("read its layers: %w", err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	return x.archive(&bounded{Reader: stream, x: x, size: size})
}

// bounded reads a layer, and fails when it is too long.
type bounded struct {
	io.Reader
	x    *extraction
	size int64 // compressed
	read int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	b.x.stream += int64(n)
	switch most := b.x.most; {
	case b.x.stream > most.stream:
		return n, fmt.Errorf("the layers have more than %d bytes", most.stream)
	case b.read > most.slack && b.read/most.ratio > b.size:
		return n, fmt.Errorf("a layer of %d bytes has more than %d times as many when it is decompressed", b.size, most.ratio)
	}
	return n, err
}

// Names by which a layer removes files of the layers below it.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// archive takes the files of a layer that no layer above it has hidden. Its work is linear in the length of the layer:
// files outside of the folder are skipped, and paths in it are short.
func (x *extraction) archive(stream io.Reader) error {
	var removed []string // in the layers below
	archive := tar.NewReader(stream)
	for {
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
		if x.entries++; x.entries > x.most.entries {
			return fmt.Errorf("its layers have more than %d files", x.most.entries)
		}
		if len(header.Name) > x.most.name || len(header.Linkname) > x.most.name {
			return fmt.Errorf("its file %.40q... has a name or a target of more than %d bytes", header.Name, x.most.name)
		}
		at := path.Clean("/" + header.Name)
		dir, base := path.Split(at)
		switch dir = path.Clean(dir); {
		case !x.concerns(at):
		case base == opaque:
			removed = append(removed, dir)
		case strings.HasPrefix(base, whiteout):
			removed = append(removed, path.Join(dir, strings.TrimPrefix(base, whiteout)))
		case x.hides(at):
		default:
			if err := x.entry(at, header, archive); err != nil {
				return err
			}
			if header.Typeflag != tar.TypeDir {
				removed = append(removed, at)
			}
		}
		if len(removed) > x.most.removed {
			return fmt.Errorf("a layer removes more than %d files below /%s", x.most.removed, folder)
		}
	}
}

// concerns reports whether an entry is in the folder, or is the folder, or may remove it; the same of the programs that
// are taken instead.
func (x *extraction) concerns(at string) bool {
	if x.named != nil {
		dir, base := path.Split(at)
		if dir == "/" || x.named[at] {
			return true
		}
		removed := path.Join(dir, strings.TrimPrefix(base, whiteout))
		for named := range x.named {
			if base == opaque && strings.HasPrefix(named, dir) || strings.HasPrefix(named+"/", removed+"/") {
				return true
			}
		}
		return false
	}
	if strings.HasPrefix(at, "/"+folder+"/") || at == "/"+folder {
		return true
	}
	return at == "/"+whiteout+folder || at == "/"+opaque
}

// hides reports whether a layer above has removed or replaced a path of the folder, or a directory above it.
func (x *extraction) hides(at string) bool {
	if x.named == nil && len(at) > len("/"+folder+"/")+x.most.path {
		return false // it is refused
	}
	for ; at != "/"; at = path.Dir(at) {
		if x.hidden[at] {
			return true
		}
	}
	return x.hidden["/"]
}

// entry takes a file if it is below the folder.
func (x *extraction) entry(at string, header *tar.Header, content io.Reader) error {
	if x.named != nil {
		return x.program(at, header, content)
	}
	if at == "/"+folder && header.Typeflag != tar.TypeDir {
		return fmt.Errorf("its /%s is not a directory", folder)
	}
	relative, inside := strings.CutPrefix(at, "/"+folder+"/")
	if !inside {
		return nil
	}
	if err := x.checkName(relative, header.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	if len(x.names)+len(x.links) == x.most.files && header.Typeflag != tar.TypeDir {
		return fmt.Errorf("it has more than %d files below /%s", x.most.files, folder)
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return nil // made for its files
	case tar.TypeReg:
		if isSparse(header) {
			return fmt.Errorf("its %s is stored as a sparse file; the image has to have it whole", at)
		}
		return x.write(relative, header.Mode&0o111 != 0, content)
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

// program takes a file of an image without the folder if it is a program.
func (x *extraction) program(at string, header *tar.Header, content io.Reader) error {
	name := path.Base(at)
	takes, isNamed := x.named[at]
	if isNamed && !takes || !isNamed && path.Dir(at) != "/" || header.Typeflag != tar.TypeReg || header.Mode&0o111 == 0 ||
		isSparse(header) || x.checkName(name, false) != nil || x.names[name] {
		return nil
	}
	start := make([]byte, len(elf.ELFMAG))
	if _, err := io.ReadFull(content, start); err != nil || string(start) != elf.ELFMAG {
		return nil //nolint:nilerr // it is too short, or something else; the archive goes on after it
	}
	if len(x.names) == x.most.files {
		return fmt.Errorf("it has more than %d programs at its root", x.most.files)
	}
	return x.write(name, true, io.MultiReader(bytes.NewReader(start), content))
}

// isSparse reports whether the archive has only parts of a file.
func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// element matches the names that a file or directory of an image may have: they mean the same to each file system and
// shell. No hidden name matches.
var element = regexp.MustCompile(`^[A-Za-z0-9_@][A-Za-z0-9._+@-]*$`)

// checkName returns an error if an image must not bring a file, or a directory, with this path below the folder. Only a
// directory there may be hidden: it has the programs that a program starts; see checkHidden.
func (x *extraction) checkName(relative string, isDir bool) error {
	if len(relative) > x.most.path || strings.Count(relative, "/") >= x.most.depth {
		return fmt.Errorf("its /%s/%.40s... has more than %d bytes or is more than %d directories deep", folder, relative,
			x.most.path, x.most.depth)
	}
	names := strings.Split(relative, "/")
	for n, name := range names {
		if reserved(name) {
			return fmt.Errorf("its /%s/%s is called %q: that says which plugins a server may run, so no image can bring it",
				folder, relative, name)
		}
		if n == 0 && (isDir || len(names) > 1) {
			name = strings.TrimPrefix(name, ".")
		}
		if !element.MatchString(name) || strings.HasSuffix(name, ".") {
			return fmt.Errorf("its /%s/%s is called %q: names of files for a server have letters, digits and . _ + @ - only, "+
				"and do not begin or end with a dot",
				folder, relative, name)
		}
	}
	return nil
}

// checkHidden returns an error if a file is in a hidden directory that does not belong to a program beside it: .NAME
// belongs to NAME, and servers do not look for plugins in it.
func (x *extraction) checkHidden(relative string) error {
	dir, _, _ := strings.Cut(relative, "/")
	if owner, hidden := strings.CutPrefix(dir, "."); hidden && !x.names[owner] {
		return fmt.Errorf("its directory is hidden, and there is no /%s/%s to which it could belong", folder, owner)
	}
	return nil
}

// reserved reports whether a name is one by which a server, or this package, decides.
func reserved(name string) bool {
	name = strings.ToLower(name)
	stage, _ := path.Match(stages, name)
	return stage || name == recordName || path.Ext(name) == path.Ext(pluginlock.FileName)
}

// write writes a file that only its owner can change, and everybody can read.
func (x *extraction) write(relative string, executable bool, content io.Reader) (err error) {
	if err := x.makeDir(path.Dir(relative)); err != nil {
		return err
	}
	file, err := x.root.OpenFile(relative, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := io.Copy(file, io.LimitReader(content, x.most.bytes-x.bytes+1))
	if err != nil {
		return fmt.Errorf("read /%s/%s: %w", folder, relative, err)
	}
	if x.bytes += n; x.bytes > x.most.bytes {
		return fmt.Errorf("its files below /%s have more than %d bytes", folder, x.most.bytes)
	}
	x.names[relative] = true
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	return errors.Join(file.Chmod(mode), file.Sync())
}

// makeDir makes a directory that all users can read, independent of the umask.
func (x *extraction) makeDir(dir string) error {
	if dir == "." {
		return nil
	}
	if err := x.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	err := x.root.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return errors.Join(err, x.root.Chmod(dir, 0o755))
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
		if !inside || !x.names[relative] {
			return fmt.Errorf("its /%s/%s is a link to %s, which is no file below /%s; the image has to have the file itself",
				folder, link, x.links[link], folder)
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
	return x.write(to, info.Mode()&0o111 != 0, source)
}

// finish checks the files and returns them, sorted.
func (x *extraction) finish(platform v1.Platform) ([]File, error) {
	files := make([]File, 0, len(x.names))
	executables := 0
	for _, relative := range slices.Sorted(maps.Keys(x.names)) {
		file, err := x.check(relative, platform)
		if err = cmp.Or(err, x.checkHidden(relative)); err != nil {
			return nil, fmt.Errorf("its /%s/%s: %w", folder, relative, err)
		}
		if file.Executable {
			executables++
		}
		files = append(files, file)
	}
	if executables == 0 {
		return nil, fmt.Errorf("it has no executable files below /%s, at its root, or in the arguments of its entrypoint, "+
			"so it is no image of plugins", folder)
	}
	return files, nil
}

// check returns a file with its sum.
func (x *extraction) check(relative string, platform v1.Platform) (File, error) {
	file, err := x.root.Open(relative)
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return File{}, err
	}
	if err := checkMachine(file, platform); err != nil {
		return File{}, err
	}
	sum, err := pluginlock.Sum(file)
	runs := info.Mode()&0o111 != 0 || strings.HasSuffix(relative, ".exe")
	return File{Name: relative, SHA256: sum, Executable: runs && !strings.HasPrefix(relative, ".")}, err
}

// machines are the values of ELF for the architectures of Go.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{
		"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "386": elf.EM_386, "ppc64le": elf.EM_PPC64,
		"s390x": elf.EM_S390, "riscv64": elf.EM_RISCV,
	}
}

// checkMachine returns an error if a file is a program for another machine. It does not rely on the platform in the
// image.
func checkMachine(file io.ReaderAt, platform v1.Platform) error {
	const machineAt = 18
	header := make([]byte, machineAt+2)
	if _, err := file.ReadAt(header, 0); err != nil || string(header[:len(elf.ELFMAG)]) != elf.ELFMAG {
		return nil //nolint:nilerr // it is a script, or a program of another system
	}
	is := elf.Machine(binary.LittleEndian.Uint16(header[machineAt:]))
	if elf.Data(header[elf.EI_DATA]) == elf.ELFDATA2MSB {
		is = elf.Machine(binary.BigEndian.Uint16(header[machineAt:]))
	}
	if want, known := machines()[platform.Architecture]; known && is != want {
		return fmt.Errorf("it is a program for another architecture (%s), although the image is for %s; use an image that "+
			"is built for it", is, platform)
	}
	return nil
}
