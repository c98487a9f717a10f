package statustest

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares the output of print with a file in testdata. The flag -update writes the file.
func Golden(t *testing.T, name string, print func(io.Writer) error) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, print(&out))
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

// Noon returns the present of the fixtures.
func Noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// At returns the time at the given distance from Noon.
func At(d time.Duration) *metav1.Time { return new(metav1.NewTime(Noon().Add(d))) }
