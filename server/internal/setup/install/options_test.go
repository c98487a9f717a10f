package install

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImagesOfVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "dev": "latest", "": "latest",
		"v0.0.0-20261128192027-485d6e69aaaa": "latest", "v1.2.4-0.20261128192027-485d6e69aaaa": "latest",
		"v1.2.3+dirty": "latest", "v1.2.x": "latest",
	} {
		require.Equal(t, Image+":"+want, ImageOf(Image, version), version)
	}
}

func TestMoversAreBesideTheServer(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"ghcr.io/cleat-dev/cleat:v1":            "ghcr.io/cleat-dev/cleat-kopia:v1",
		"localhost:5000/team/cleat:dev":         "localhost:5000/team/cleat-kopia:dev",
		"cleat:dev":                             "cleat-kopia:dev",
		"ghcr.io/cleat-dev/cleat@sha256:abcdef": "", "ghcr.io/x/our-cleat:v1": "", "ghcr.io/cleat:5000/server": "",
		"ghcr.io/cleat-dev/cleat": "", "ghcr.io/cleat-dev/cleat:v1@sha256:abcdef": "",
	} {
		require.Equal(t, want, Beside(image, KopiaMoverImage), image)
	}
}
