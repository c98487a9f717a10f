package release

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"os/exec"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
)

// withLibraries returns the server for a platform, with the libraries of its image only.
func withLibraries(t *testing.T, architecture string) Built {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: downloads Debian packages")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skipf("libraries are packages of Debian, and there is no apt-get here: %v", err)
	}
	server, err := Select([]string{"cleat"})
	require.NoError(t, err)
	b := server[0].Of("v1.2.3", v1.Platform{OS: "linux", Architecture: architecture}, "")
	require.NoError(t, Debian{}.Put(t.Context(), &b))
	return b
}

// TestLibrariesAreWhole follows what each library needs, on the platform of this machine and on another one.
func TestLibrariesAreWhole(t *testing.T) {
	t.Parallel()
	for architecture, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(architecture, func(t *testing.T) {
			t.Parallel()
			b := withLibraries(t, architecture)
			names, needed, last, size := map[string]bool{}, map[string]string{}, "", 0
			for _, header := range b.base.headers {
				require.Less(t, last, header.Name, "sorted, so that the bytes are the same each time")
				last = header.Name
				names[path.Base(header.Name)] = true
				size += len(b.base.files[header.Name])
				require.Zero(t, header.Mode&0o6000, "%s runs as its owner", header.Name)
				if header.Typeflag != tar.TypeReg || !strings.Contains(header.Name, ".so") {
					continue
				}
				library, err := elf.NewFile(bytes.NewReader(b.base.files[header.Name]))
				require.NoError(t, err, header.Name)
				require.Equal(t, machine, library.Machine, header.Name)
				of, err := library.ImportedLibraries()
				require.NoError(t, err)
				for _, name := range of {
					needed[name] = header.Name
				}
			}
			require.Greater(t, len(needed), 3)
			for name, by := range needed {
				require.True(t, names[name], "%s needs %s", by, name)
			}
			require.Less(t, size, 30<<20, "an image stays small")
			for _, name := range libraries {
				require.NotEmpty(t, b.base.files["var/lib/dpkg/status.d/"+name])
				copyright := "usr/share/doc/" + name + "/copyright"
				if name == "libgcc-s1" { // a link to the folder of
					copyright = "usr/share/doc/gcc-14-base/copyright"
				}
				require.NotEmpty(t, b.base.files[copyright], name)
			}
			require.Len(t, b.base.packages, len(libraries))
			require.Regexp(t, `^pkg:deb/debian/libc6@2\.41\S+\?arch=`+architecture+`&distro=trixie$`, purlOf(b, "libc6"))
		})
	}
}

func purlOf(b Built, name string) string {
	for _, c := range b.base.packages {
		if c.Name == name {
			return c.PackageURL
		}
	}
	return ""
}
