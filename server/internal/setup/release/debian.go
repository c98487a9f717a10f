package release

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/CycloneDX/cyclonedx-go"
)

// suite is the release of Debian from which the image of the server has its libraries. Its glibc is not older than that
// of Velero's image (Ubuntu 24.04), so plugins that run there find the symbols that they need.
const suite = "trixie"

// libraries are the packages in the image of the server: what a dynamically linked plugin finds in Velero's image. Each
// library that a file of them needs is among them; nothing else that they depend on runs without a shell.
var libraries = []string{
	"base-files", "ca-certificates", "gcc-14-base", "libc6", "libgcc-s1", "libssl3t64", "libzstd1", "netbase", "openssl",
	"openssl-provider-legacy", "tzdata", "zlib1g",
}

// Debian is the archive of packages. They are downloaded with apt-get and unpacked, and never installed: lists and
// packages are kept in a cache, so the packages of this machine and of other architectures do not matter.
type Debian struct {
	// Snapshot is a time, as 20261101T000000Z: the packages are those that Debian had then. Without it, they are the
	// newest ones, and the SBOM says which.
	Snapshot string
}

// base is the part of an image that comes from Debian.
type base struct {
	headers  []tar.Header // sorted by name
	files    contents
	packages []cyclonedx.Component
}

// Put adds the libraries to a product whose image has them: the server.
func (d Debian) Put(ctx context.Context, b *Built) (err error) {
	if !b.server {
		return nil
	}
	if b.base, err = d.fetch(ctx, b.Platform.Architecture); err != nil {
		return fmt.Errorf("take the libraries of the server's image for %s from Debian: %w", b.Platform, err)
	}
	return nil
}

func (d Debian) fetch(ctx context.Context, architecture string) (base, error) {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return base{}, fmt.Errorf("%w; build the image on Debian or Ubuntu, or in a container of one with the packages "+
				"debian-archive-keyring and ca-certificates", err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return base{}, err
	}
	a := aptGet{dir: filepath.Join(cache, "cleat", "debian", "image", strings.Trim(architecture+"-"+d.Snapshot, "-")),
		architecture: architecture}
	for _, dir := range []string{a.in("packages"), a.in("none")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return base{}, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(a.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return base{}, err
	}
	defer lock.Close() //nolint:errcheck // nothing was written; it ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return base{}, err
	}
	if err := a.prepare(d); err != nil {
		return base{}, err
	}
	if _, err := a.run(ctx, "packages", "update", "-qq", "--error-on=any"); err != nil {
		return base{}, err
	}
	return a.unpack(ctx)
}

// aptGet is apt-get with lists of its own, for one architecture.
type aptGet struct{ dir, architecture string }

// keyrings are the files by which apt checks that lists are Debian's.
var keyrings = []string{
	"/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg",
}

// prepare writes the files that apt-get reads.
func (a aptGet) prepare(d Debian) error {
	keyring := slices.IndexFunc(keyrings, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
	if keyring < 0 {
		return fmt.Errorf("there is no %s, by which apt knows Debian's lists: install debian-archive-keyring", keyrings[0])
	}
	server, options, after := "http://deb.debian.org/", "", ""
	if d.Snapshot != "" { // the lists of that time are valid no longer
		server, options, after = "https://snapshot.debian.org/archive/", "check-valid-until=no ", "/"+d.Snapshot
	}
	var sources strings.Builder
	for _, part := range [][2]string{{"debian", suite}, {"debian", suite + "-updates"}, {"debian-security", suite +
		"-security"}} {
		fmt.Fprintf(&sources, "deb [%ssigned-by=%s] %s%s%s %s main\n", options, keyrings[keyring], server, part[0], after,
			part[1])
	}
	return errors.Join(os.WriteFile(a.in("sources.list"), []byte(sources.String()), 0o600),
		os.WriteFile(a.in("status"), nil, 0o600))
}

func (a aptGet) in(name string) string { return filepath.Join(a.dir, name) }

// run runs apt-get in a directory. Its settings of the machine, such as a proxy, are used.
func (a aptGet) run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	for _, option := range []string{
		"Dir::Etc::sourcelist=" + a.in("sources.list"), "Dir::Etc::sourceparts=/dev/null", "Dir::State=" + a.dir,
		"Dir::State::lists=" + a.in("lists"), "Dir::State::status=" + a.in("status"), "Dir::Cache=" + a.in("cache"),
		"APT::Architecture=" + a.architecture, "APT::Architectures=" + a.architecture, "Acquire::Languages=none",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "APT::Sandbox::User=root", "Acquire::Retries=3",
	} {
		args = append(args, "-o", option)
	}
	return output(ctx, a.in(dir), "apt-get", args...)
}

// output returns the output of a program.
func output(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, args[0], err, bytes.TrimSpace(log.Bytes()))
	}
	return out, err
}

// unpack downloads the packages that are not there, and returns their files.
func (a aptGet) unpack(ctx context.Context) (base, error) {
	// A line is 'URL' FILE SIZE SHA256:SUM. Packages that are in the directory are not listed, and not downloaded again;
	// apt-get compares their sums.
	list, err := a.run(ctx, "none", append([]string{"download", "-qq", "--print-uris"}, libraries...)...)
	if err != nil {
		return base{}, err
	}
	if _, err := a.run(ctx, "packages", append([]string{"download", "-qq"}, libraries...)...); err != nil {
		return base{}, err
	}
	b := base{files: contents{}}
	entries := map[string]tar.Header{}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) != 4 {
			return base{}, fmt.Errorf("apt-get describes a package as %q, want its URL, file, size and sum", line)
		}
		if err := a.add(ctx, &b, entries, fields[1], strings.TrimPrefix(fields[3], "SHA256:")); err != nil {
			return base{}, fmt.Errorf("unpack %s: %w", fields[1], err)
		}
	}
	if len(b.packages) != len(libraries) {
		return base{}, fmt.Errorf("apt-get has %d packages, want %d: %s", len(b.packages), len(libraries), list)
	}
	b.write(entries, "etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")
	b.write(entries, "etc/group", "root:x:0:\nnonroot:x:65532:\n")
	b.write(entries, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
	b.trust(entries)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		b.headers = append(b.headers, entries[name])
	}
	return b, nil
}

// add adds the files of a package, and a description of it where scanners of images look for one.
func (a aptGet) add(ctx context.Context, b *base, entries map[string]tar.Header, file, sum string) error {
	control, err := output(ctx, a.in("packages"), "dpkg-deb", "--field", file)
	if err != nil {
		return err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(control)) {
		if key, value, found := strings.Cut(line, ": "); found && key[0] != ' ' {
			fields[key] = strings.TrimSpace(value)
		}
	}
	name, version := fields["Package"], fields["Version"]
	b.write(entries, "var/lib/dpkg/status.d/"+name, string(control))
	purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=%s", name, url.QueryEscape(version), fields["Architecture"],
		suite)
	b.packages = append(b.packages, cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: name,
		Version: version, PackageURL: purl,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}})
	content, err := output(ctx, a.in("packages"), "dpkg-deb", "--fsys-tarfile", file)
	if err != nil {
		return err
	}
	files := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if header.Typeflag == tar.TypeDir || !wanted(at) {
			continue // directories are made for their files
		}
		if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeSymlink {
			return fmt.Errorf("%s is neither a file nor a symbolic link", at)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		b.write(entries, at, string(text))
		entries[at] = tar.Header{Name: at, Typeflag: header.Typeflag, Linkname: header.Linkname, Mode: header.Mode}
	}
}

// wanted reports whether a file of a package is in the image: libraries and what they read, and copyrights. Programs
// are not.
func wanted(at string) bool {
	switch dir, _, below := strings.Cut(at, "/"); {
	case !below: // links, as lib to usr/lib
		return dir != "bin" && dir != "sbin"
	case dir == "etc":
		return !strings.Contains(at, ".d/") && !strings.HasPrefix(at, "etc/issue")
	}
	for _, unwanted := range []string{"/ssl/misc/", "/systemd/", "/gconv/"} { // the last one has 8 MB of character sets
		if strings.Contains(at, unwanted) {
			return false
		}
	}
	for _, prefix := range []string{"usr/lib/", "usr/lib64/", "usr/share/zoneinfo/", "usr/share/ca-certificates/",
		"usr/share/common-licenses/"} {
		if strings.HasPrefix(at, prefix) {
			return true
		}
	}
	below, isDoc := strings.CutPrefix(at, "usr/share/doc/")
	isLink := !strings.Contains(below, "/") // to the directory of another package
	return isDoc && (path.Base(below) == "copyright" || isLink)
}

func (b *base) write(entries map[string]tar.Header, at, content string) {
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		entries[dir+"/"] = tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}
	}
	entries[at] = tar.Header{Name: at, Typeflag: tar.TypeReg, Mode: 0o644}
	b.files[at] = []byte(content)
}

// trust writes all certificates of authorities as one file, as the installation of the package does.
func (b *base) trust(entries map[string]tar.Header) {
	const dir = "usr/share/ca-certificates/"
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if strings.HasPrefix(name, dir) {
			all.Write(b.files[name])
			delete(b.files, name)
			delete(entries, name)
		}
	}
	delete(entries, dir)
	delete(entries, dir+"mozilla/")
	b.write(entries, authoritiesFile, all.String())
}
