package debian

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// aptGet is an apt-get that has two packages: a program and a library that it needs, of which the machine has the
// second one installed.
const aptGet = `#!/bin/sh
for arg; do
	case $arg in
	Dir::Cache::archives=*) to=${arg#*=} ;;
	Dir::State::status=*) status=${arg#*=} ;;
	esac
done
touch "$to/program.deb" "$to/libc6_1.deb"
if ! grep -q library "${status:-/var/lib/dpkg/status}"; then touch "$to/library.deb"; fi
`

const dpkgDeb = `#!/bin/sh
mkdir -p "$3/usr/lib/machine"
case $2 in
*/program.deb)
	printf '#!/bin/sh\ncat "${LD_LIBRARY_PATH%%%%:*}/library.so" || exit 3\n' >"$3/program"
	chmod 755 "$3/program" ;;
*/library.deb) echo works >"$3/usr/lib/machine/library.so" ;;
*) exit 1 ;;
esac
`

// TestPartsAreWholeOrNot unpacks a part on a machine that has the same library, and one whose program ends at once.
func TestPartsAreWholeOrNot(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{"apt-get": aptGet, "dpkg-deb": dpkgDeb} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755)) //nolint:gosec // it runs
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	part := Part{Name: "part", Packages: []string{"program"}, Program: "program"}
	require.NoError(t, part.Unpack(t.Context(), dir))
	require.FileExists(t, filepath.Join(dir, "part/usr/lib/machine/library.so"))

	broken := Part{Name: "broken", Packages: []string{"program"}, Program: "usr/lib/machine/library.so"}
	err := broken.Unpack(t.Context(), dir)
	require.ErrorContains(t, err, "the unpacked broken does not run here: ")
	require.ErrorAs(t, err, new(*BrokenError))
	require.NoDirExists(t, filepath.Join(dir, "broken"), "it is unpacked again the next time")
	left, err := filepath.Glob(filepath.Join(dir, ".unpack-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
