package location

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestDefaultChanges(t *testing.T) {
	t.Parallel()
	at := func(name string, second int64, marked bool) velerov1.BackupStorageLocation {
		l := velerov1.BackupStorageLocation{}
		l.Name, l.CreationTimestamp, l.Spec.Default = name, metav1.Unix(second, 0), marked
		return l
	}
	for name, test := range map[string]struct {
		locations []velerov1.BackupStorageLocation
		preferred string
		want      map[string]bool
	}{
		"none at all": {preferred: "default"},
		"none marked": {[]velerov1.BackupStorageLocation{at("a", 1, false), at("default", 2, false)}, "default",
			map[string]bool{"default": true}},
		"none marked or preferred": {[]velerov1.BackupStorageLocation{at("a", 1, false)}, "", nil},
		"preferred is missing":     {[]velerov1.BackupStorageLocation{at("a", 1, false)}, "default", nil},
		"one marked": {[]velerov1.BackupStorageLocation{at("a", 1, true), at("default", 2, false)}, "default",
			nil},
		"three marked": {[]velerov1.BackupStorageLocation{at("a", 1, true), at("b", 3, true), at("c", 2, true),
			at("d", 4, false)}, "a",
			map[string]bool{"a": false, "c": false}},
		"of the same second": {[]velerov1.BackupStorageLocation{at("b", 1, true), at("a", 1, true)}, "",
			map[string]bool{"a": false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]bool{}
			for location, mark := range defaultChanges(test.locations, test.preferred) {
				got[location.Name] = mark
			}
			if test.want == nil {
				test.want = map[string]bool{}
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }
	every := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for name, test := range map[string]struct {
		frequency *metav1.Duration
		server    time.Duration
		last      *metav1.Time
		known     bool
		due       bool
		wait      time.Duration
	}{
		"never validated":                 {server: time.Minute, known: true, due: true},
		"never validated, zero frequency": {frequency: every(0), known: true, due: true},
		"new to this process":             {server: time.Minute, last: ago(time.Second), due: true},
		"server's default, not yet": {server: time.Minute, last: ago(20 * time.Second), known: true,
			wait: 40 * time.Second},
		"server's default, due": {server: time.Minute, last: ago(time.Minute), known: true, due: true},
		"own frequency, not yet": {frequency: every(time.Hour), server: time.Minute, last: ago(time.Minute),
			known: true, wait: 59 * time.Minute},
		"own frequency, due": {frequency: every(time.Second), server: time.Minute, last: ago(time.Second),
			known: true, due: true},
		"zero means never":              {frequency: every(0), server: time.Minute, last: ago(time.Hour), known: true},
		"the server's zero means never": {last: ago(time.Hour), known: true},
		"negative means the server's": {frequency: every(-1), server: time.Minute, last: ago(20 * time.Second),
			known: true, wait: 40 * time.Second},
		"validated in the future (clock)": {server: time.Minute, last: ago(-time.Minute), known: true, wait: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{Frequency: test.server, Now: func() time.Time { return now }}
			location := &velerov1.BackupStorageLocation{}
			location.Name = "l"
			location.Spec.ValidationFrequency = test.frequency
			location.Status.LastValidationTime = test.last
			if test.known {
				r.remember(client.ObjectKeyFromObject(location), location.Spec)
			}
			wait, due := r.due(location, r.frequency(location))
			require.Equal(t, test.due, due)
			if !due {
				require.Equal(t, test.wait, wait)
			}
			location.Spec.Provider = "changed"
			_, due = r.due(location, r.frequency(location))
			require.True(t, due, "a changed spec must be validated immediately")
		})
	}
}

func TestStatusMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ message, want string }{
		"plain": {"bucket is missing", "bucket is missing"},
		"Azure's dump": {
			"rpc error: GET https://x.blob.core.windows.net/c?restype=container&sig=SeCrEt&se=2026\n-----\nRESPONSE 404: 404 " +
				"The container does not exist.\nERROR CODE: ContainerNotFound\n-----\n<xml>",
			"rpc error: GET https://x.blob.core.windows.net/c?restype=container&sig=REDACTED&se=REDACTED (ERROR CODE: " +
				"ContainerNotFound)",
		},
		"a signed URL of S3": {
			`get "http://s3/b/k?X-Amz-Credential=me&X-Amz-Signature=abc": EOF`,
			`get "http://s3/b/k?X-Amz-Credential=REDACTED&X-Amz-Signature=REDACTED": EOF`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, statusMessage(test.message))
		})
	}
	long := statusMessage(strings.Repeat("ü", 2000))
	require.LessOrEqual(t, len(long), 2048)
	require.True(t, strings.HasSuffix(long, "ü..."))
}

func FuzzStatusMessage(f *testing.F) {
	f.Add("a\nERROR CODE: B")
	f.Add("x?sig=y")
	f.Fuzz(func(t *testing.T, message string) {
		got := statusMessage(message)
		require.LessOrEqual(t, len(got), maxMessage)
		require.NotContains(t, got, "\n")
	})
}
