package policy

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// shelf stores artifacts in memory.
type shelf struct {
	mu   sync.Mutex
	kept map[Artifact]string
}

func (s *shelf) keep(writer, artifact string, content io.Reader) error {
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[Artifact]string{}
	}
	s.kept[Artifact{writer, artifact}] = string(text)
	return nil
}

func (s *site) session(t *testing.T) *pluginhost.Session {
	t.Helper()
	session := s.host.Session(hclog.New(&hclog.LoggerOptions{Output: s.log, Name: "backup", DisableTime: true}))
	t.Cleanup(session.Close)
	return session
}

var nightly = []byte(`{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"nightly","namespace":"velero"}}`)

// describe lets the writers describe a backup with two items.
func (s *site) describe(t *testing.T, keep Keep) Written {
	t.Helper()
	manifest := s.Manifests.Begin(t.Context(), s.session(t), nightly, keep)
	manifest.Add(&manifestwriter.Item{Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop", Name: "web"})
	manifest.Add(&manifestwriter.Item{Version: "v1", Resource: "nodes", Kind: "Node", Name: "n1"})
	written := manifest.Finish()
	manifest.Abort()
	return written
}

const (
	itemList = "- plugin: cleat.dev/item-list\n"
	items    = `{"version":"v1","resource":"pods","kind":"Pod","namespace":"shop","name":"web"}
{"version":"v1","resource":"nodes","kind":"Node","name":"n1"}
`
)

func TestAllWritersDescribeABackup(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList+"  - plugin: example.io/policy\n")
	var kept shelf
	written := s.describe(t, kept.keep)
	list, count := Artifact{"cleat.dev/item-list", "items.jsonl"}, Artifact{"example.io/policy", "count.txt"}
	require.Equal(t, Written{Artifacts: []Artifact{list, count}}, written)
	require.Equal(t, map[Artifact]string{list: items, count: "2 items of nightly"}, kept.kept)
	require.Eventually(t, func() bool { return len(s.log.with("backup: seen all items")) > 0 }, time.Minute, 10*time.Millisecond,
		"the plugin logs to the backup's log, through a pipe")
	for _, status := range s.Manifests.Status() {
		require.True(t, status.Working())
		require.Equal(t, noon(), status.Since)
	}
}

func TestNothingIsWrittenWithoutWriters(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	require.Equal(t, Written{}, s.describe(t, nil))
	require.Empty(t, s.Manifests.Status())
}

func TestFailingWriterDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ settings, reason, message string }{
		"hanging":      {"plugin: example.io/policy, deadline: 1s, config: {do: hang}", ReasonOverdue, "did not answer Write within 1s"},
		"dying":        {"plugin: example.io/policy, config: {do: die}", ReasonDied, "died during Write: exit status 3"},
		"wrong":        {"plugin: example.io/policy, config: {do: answer wrong}", ReasonInvalidReply, "../count.txt"},
		"failing":      {"plugin: example.io/policy, config: {do: fail}", ReasonFailed, "(example.io/policy): the calendar cannot be reached"},
		"absent":       {"plugin: example.io/none", ReasonUnavailable, `unknown ManifestWriter "example.io/none"; known are: `},
		"quarantined":  {"plugin: example.io/broken", ReasonUnavailable, "; quarantined: "},
		"another kind": {"plugin: cleat.dev/fifo", ReasonUnavailable, `"cleat.dev/fifo" is not a ManifestWriter`},
		"bad config":   {"plugin: example.io/policy, config: {do: 5}", ReasonConfigRefused, "cleat.yaml:5: backups.manifestWriters[1].config.do: is the number 5, want text; put it in quotes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList+"  - {"+test.settings+"}\n")
			var kept shelf
			written := s.describe(t, kept.keep)
			require.Equal(t, []Artifact{{"cleat.dev/item-list", "items.jsonl"}}, written.Artifacts)
			require.Equal(t, items, kept.kept[written.Artifacts[0]])
			require.Empty(t, written.Errors)
			require.Len(t, written.Warnings, 1)
			require.ErrorContains(t, written.Warnings[0], "ManifestWriter(")
			require.ErrorContains(t, written.Warnings[0], test.message)
			status := s.Manifests.Status()
			require.True(t, status[0].Working())
			require.Equal(t, test.reason, status[1].Reason)
			require.Equal(t, 1.0, s.count(t, "cleat_policy_failures_total", "ManifestWriter", status[1].Plugin, test.reason))
			require.Len(t, s.log.with("policy fails"), 1)
		})
	}
}

func TestFirstWriterInConfigurationKeepsArtifactName(t *testing.T) {
	t.Parallel()
	const other = "  - {plugin: example.io/policy, config: {do: take}}\n"
	list, policy := Artifact{"cleat.dev/item-list", "items.jsonl"}, Artifact{"example.io/policy", "items.jsonl"}
	for name, test := range map[string]struct {
		config        string
		first, second Artifact
	}{
		"the built-in one first": {"  " + itemList + other, list, policy},
		"the built-in one last":  {other + "  " + itemList, policy, list},
	} {
		for _, slow := range []Artifact{test.first, test.second} { // whoever of them is stored last
			t.Run(name+", slow "+slow.Writer, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, "backups:\n  manifestWriters:\n"+test.config)
				var kept shelf
				fastKept := make(chan struct{})
				written := s.describe(t, func(writer, artifact string, content io.Reader) error {
					if writer == slow.Writer {
						<-fastKept
					} else {
						defer close(fastKept)
					}
					return kept.keep(writer, artifact, content)
				})
				require.Equal(t, []Artifact{test.first}, written.Artifacts)
				require.Equal(t, []Artifact{test.second}, written.Discarded)
				require.Equal(t, map[Artifact]string{list: items, policy: "2 items of nightly"}, kept.kept)
				status := s.Manifests.Status()
				require.True(t, status[0].Working())
				require.Equal(t, ReasonInvalidReply, status[1].Reason)
				require.Empty(t, written.Errors)
				require.Len(t, written.Warnings, 1)
				require.EqualError(t, written.Warnings[0], "ManifestWriter("+test.second.Writer+"): invalid reply: it writes a file items.jsonl, as "+
					test.first.Writer+" does, which is before it in backups.manifestWriters; remove one of them")
				require.Equal(t, 1.0, s.count(t, "cleat_policy_failures_total", "ManifestWriter", test.second.Writer, ReasonInvalidReply))
				require.Len(t, s.log.with("policy fails"), 1)
			})
		}
	}
}

func TestFailurePolicyFailMakesBackupError(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {manifestWriters: [{plugin: example.io/policy, failurePolicy: Fail, config: {do: fail}}]}\n")
	written := s.describe(t, new(shelf).keep)
	require.Empty(t, written.Warnings)
	require.Len(t, written.Errors, 1)
}

func TestKeepErrorIsAFailure(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList)
	full := errors.New("no space left")
	written := s.describe(t, func(string, string, io.Reader) error { return full })
	require.Empty(t, written.Artifacts)
	require.Len(t, written.Warnings, 1)
	require.ErrorIs(t, written.Warnings[0], full)
	require.Equal(t, ReasonNotKept, s.Manifests.Status()[0].Reason)
}

func TestCancelledBackupIsNoWriterFailure(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList+"  - plugin: example.io/policy\n")
	ctx, cancel := context.WithCancel(t.Context())
	manifest := s.Manifests.Begin(ctx, s.session(t), nightly, new(shelf).keep)
	cancel()
	written := manifest.Finish()
	require.Empty(t, written.Artifacts)
	require.Len(t, written.Warnings, 2)

	manifest = s.Manifests.Begin(t.Context(), s.session(t), nightly, new(shelf).keep)
	manifest.Abort()
	for _, status := range s.Manifests.Status() {
		require.True(t, status.Working())
		require.Zero(t, status.Since)
	}
}
