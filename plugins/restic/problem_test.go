package restic

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

func TestErrorsOfDeletedFilesAreNoFailures(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(volume, "there"), nil, 0o600))
	for name, tt := range map[string]struct {
		cause, item, during string
		vanished, unread    []string
	}{
		"deleted before it was opened": {cause: `{"Op":"open","Path":"x","Err":2}`, item: "gone",
			vanished: []string{"gone"}},
		"deleted after it was opened": {cause: `{}`, item: "gone", vanished: []string{"gone"}},
		"an error that says nothing":  {cause: `{}`, item: "there", unread: []string{`"there": {}`}},
		"not allowed": {cause: `{"Op":"open","Path":"x","Err":13}`, item: "there",
			unread: []string{`"there": open x: permission denied`}},
		"of the scan, which only counts":   {cause: `{}`, item: "there", during: "scan"},
		"of no file, so nothing was there": {cause: `{"message":"disk failed"}`, unread: []string{`"": disk failed`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, item := &backup{volume: dmv1.Volume{Path: volume}}, ""
			if tt.item != "" {
				item = filepath.Join(volume, tt.item)
			}
			message, ok := program.Parse(fmt.Appendf(nil, `{"message_type":"error","error":%s,"during":%q,"item":%q}`, tt.cause,
				tt.during, item))
			require.True(t, ok)
			b.problem(message)
			require.Equal(t, len(tt.vanished), b.vanished.count)
			for i, name := range tt.vanished {
				require.Equal(t, fmt.Sprintf("%q", name), b.vanished.first[i])
			}
			require.Equal(t, tt.unread, b.unread)
			require.Equal(t, len(tt.unread), b.failed)
		})
	}
}

func TestRefusedAttributesFailNoRestore(t *testing.T) {
	t.Parallel()
	const refused, other = "ignoring error for /db: lchown /v/db: operation not permitted",
		"ignoring error for /a/b: open /v/a/b: no space left on device"
	asJSON := `{"message_type":"error","error":{"message":"UtimesNano: operation not permitted"},"during":"restore","item":"/x"}`
	for name, tt := range map[string]struct {
		lines []string
		end   string
		whole bool
	}{
		"refused":          {[]string{refused, refused}, "Fatal: There were 2 errors", true},
		"of newer ones":    {[]string{asJSON}, "Fatal: There were 1 errors", true},
		"others as well":   {[]string{refused, other}, "Fatal: There were 2 errors", false},
		"one is not shown": {[]string{refused}, "Fatal: There were 2 errors", false},
		"of the end":       {nil, "Fatal: repository does not exist", false},
	} {
		r := &restore{session: &session{}}
		for _, line := range tt.lines {
			r.line([]byte(line))
		}
		require.Equal(t, tt.whole, r.isWhole(&program.Error{Code: 1, Lines: append(tt.lines, tt.end)}), name)
	}
	r := &restore{session: &session{}}
	r.line([]byte(refused))
	require.Equal(t, []string{`"db"`}, r.refused.first)
}
