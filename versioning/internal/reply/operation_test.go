package reply_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

func TestOperationIDMustBeStorableAndPrintable(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"":                         "",
		"du-5e1c.0a9f":             "",
		"any text, мир":            "",
		strings.Repeat("x", 1024):  "",
		strings.Repeat("x", 1025):  "has 1025 bytes, want at most 1024",
		"two\nlines":               "has control characters",
		"zero\x00":                 "has control characters",
		"  ":                       "is blank",
		"\u0085":                   "has control characters",
		strings.Repeat("é", 512):   "",
		strings.Repeat("é", 512+1): "has 1026 bytes",
	} {
		err := reply.OperationID(id)
		if want == "" {
			require.NoError(t, err, "%q", id)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestProgressIsWhatIsReported(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 5, time.UTC)
	for name, test := range map[string]struct {
		received *shared.OperationProgress
		want     framework.OperationProgress
		refused  string
	}{
		"all of it": {
			&shared.OperationProgress{
				Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, OperationUnits: "bytes", Description: "copying",
				Started: timestamppb.New(at), Updated: timestamppb.New(at.Add(time.Second)),
			},
			framework.OperationProgress{
				Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, Units: "bytes", Description: "copying",
				Started: at, Updated: at.Add(time.Second),
			}, "",
		},
		"nothing yet": {&shared.OperationProgress{}, framework.OperationProgress{}, ""},
		"more than estimated": {&shared.OperationProgress{NCompleted: 9, NTotal: 7},
			framework.OperationProgress{NCompleted: 9, NTotal: 7}, ""},
		"zero times of Go": {&shared.OperationProgress{Started: timestamppb.New(time.Time{})},
			framework.OperationProgress{}, ""},
		"absent":            {nil, framework.OperationProgress{}, "there is no progress in it"},
		"less than nothing": {&shared.OperationProgress{NCompleted: -1}, framework.OperationProgress{NCompleted: -1}, ""},
		"of less than nothing": {&shared.OperationProgress{NTotal: math.MinInt64},
			framework.OperationProgress{NTotal: math.MinInt64}, ""},
		"started never": {&shared.OperationProgress{Started: &timestamppb.Timestamp{Seconds: math.MaxInt64}},
			framework.OperationProgress{}, ""},
		"updated never": {&shared.OperationProgress{NTotal: 3, Updated: &timestamppb.Timestamp{Nanos: -1}},
			framework.OperationProgress{NTotal: 3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := reply.Progress(test.received)
			require.Equal(t, test.want, got)
			if test.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.refused)
			}
		})
	}
}

// FuzzProgress proves that progress has its counts and valid times.
func FuzzProgress(f *testing.F) {
	f.Add(int64(1), int64(2), int64(1700000000), int32(5))
	f.Add(int64(-1), int64(0), int64(math.MinInt64), int32(-1))
	f.Fuzz(func(t *testing.T, done, total, seconds int64, nanos int32) {
		got, err := reply.Progress(&shared.OperationProgress{
			NCompleted: done, NTotal: total, Started: &timestamppb.Timestamp{Seconds: seconds, Nanos: nanos},
		})
		require.NoError(t, err)
		require.Equal(t, [2]int64{done, total}, [2]int64{got.NCompleted, got.NTotal})
		_, err = got.Started.MarshalJSON()
		require.NoError(t, err)
	})
}
