package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// shelf keeps artifacts in memory.
type shelf struct {
	mu     sync.Mutex
	kept   map[Artifact]string
	stored []Artifact
}

func (s *shelf) keep(artifact Artifact, content io.Reader) error {
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[Artifact]string{}
	}
	s.kept[artifact] = string(text)
	return nil
}

func (s *shelf) store(artifacts []Artifact) error {
	s.stored = append(s.stored, artifacts...)
	return nil
}

func (s *site) session(t *testing.T) *pluginhost.Session {
	t.Helper()
	session := s.host.Session("", hclog.New(&hclog.LoggerOptions{Output: s.log, Name: "backup", DisableTime: true}))
	t.Cleanup(session.Close)
	return session
}

var nightly = []byte(`{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"nightly","namespace":"velero"}}`)

// describe calls the writers for a backup with two items.
func (s *site) describe(t *testing.T, keep Keep) *Manifest {
	t.Helper()
	manifest := s.Manifests.Begin(t.Context(), s.session(t), nightly, keep)
	manifest.Add(&manifestwriter.Item{Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop", Name: "web"},
		[]byte(`{"kind":"Pod"}`))
	manifest.Add(&manifestwriter.Item{Version: "v1", Resource: "nodes", Kind: "Node", Name: "n1"},
		[]byte(`{"kind":"Node"}`))
	manifest.Finish()
	return manifest
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
	warnings, errs := s.describe(t, kept.keep).Store(kept.store)
	require.Empty(t, warnings)
	require.Empty(t, errs)
	list, count := Artifact{"cleat.dev/item-list", "items.jsonl"}, Artifact{"example.io/policy", "count.txt"}
	require.Equal(t, []Artifact{list, count}, kept.stored)
	require.Equal(t, map[Artifact]string{list: items, count: "2 items of nightly"}, kept.kept)
	require.Eventually(t, func() bool { return len(s.log.with("backup: seen all items")) > 0 }, 5*time.Minute,
		10*time.Millisecond,
		"the plugin logs to the backup's log, through a pipe")
	for _, status := range s.Manifests.Status() {
		require.True(t, status.Working())
		require.Equal(t, noon(), status.Since)
	}
}

func TestBuiltInWriterDescribesABackupIfNoneIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {concurrent: 2}\n")
	var kept shelf
	warnings, errs := s.describe(t, kept.keep).Store(kept.store)
	require.Empty(t, warnings)
	require.Empty(t, errs)
	require.Equal(t, []Artifact{{"cleat.dev/manifest", "manifest.json.gz"}}, kept.stored)
}

func TestNothingIsWrittenWithoutWriters(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {manifestWriters: []}\n")
	warnings, errs := s.describe(t, nil).Store(nil)
	require.Empty(t, warnings)
	require.Empty(t, errs)
	require.Empty(t, s.Manifests.Status())
}

func TestFailingWriterDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ settings, reason, message string }{
		"hanging": {"plugin: example.io/policy, deadline: 1s, config: {do: hang}", ReasonOverdue,
			"did not answer Write within 1s"},
		"dying": {"plugin: example.io/policy, config: {do: die}", ReasonDied, "died during Write: exit status 3"},
		"wrong": {"plugin: example.io/policy, config: {do: answer wrong}", ReasonInvalidReply, "../count.txt"},
		"failing": {"plugin: example.io/policy, config: {do: fail}", ReasonFailed,
			"(example.io/policy): the calendar cannot be reached"},
		"absent": {"plugin: example.io/none", ReasonUnavailable,
			`unknown ManifestWriter "example.io/none"; known are: `},
		"quarantined":  {"plugin: example.io/broken", ReasonUnavailable, "; quarantined: "},
		"another kind": {"plugin: cleat.dev/fifo", ReasonUnavailable, `"cleat.dev/fifo" is not a ManifestWriter`},
		"bad config": {"plugin: example.io/policy, config: {do: 5}", ReasonConfigRefused,
			"cleat.yaml:5: backups.manifestWriters[1].config.do: is the number 5, want text; put it in quotes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList+"  - {"+test.settings+"}\n")
			var kept shelf
			warnings, errs := s.describe(t, kept.keep).Store(kept.store)
			require.Equal(t, []Artifact{{"cleat.dev/item-list", "items.jsonl"}}, kept.stored)
			require.Equal(t, items, kept.kept[kept.stored[0]])
			require.Empty(t, errs)
			require.Len(t, warnings, 1)
			require.ErrorContains(t, warnings[0], "ManifestWriter(")
			require.ErrorContains(t, warnings[0], test.message)
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
		for _, slow := range []Artifact{test.first, test.second} { // whichever is stored last
			t.Run(name+", slow "+slow.Writer, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, "backups:\n  manifestWriters:\n"+test.config)
				var kept shelf
				fastKept := make(chan struct{})
				warnings, errs := s.describe(t, func(artifact Artifact, content io.Reader) error {
					if artifact == slow {
						<-fastKept
					} else {
						defer close(fastKept)
					}
					return kept.keep(artifact, content)
				}).Store(kept.store)
				require.Equal(t, []Artifact{test.first}, kept.stored)
				require.Equal(t, map[Artifact]string{list: items, policy: "2 items of nightly"}, kept.kept)
				status := s.Manifests.Status()
				require.True(t, status[0].Working())
				require.Equal(t, ReasonInvalidReply, status[1].Reason)
				require.Empty(t, errs)
				require.Len(t, warnings, 1)
				require.EqualError(t, warnings[0], "ManifestWriter("+test.second.Writer+
					"): invalid reply: it writes a file items.jsonl, as "+
					test.first.Writer+" does, which is before it in backups.manifestWriters; remove one of them")
				require.Equal(t, 1.0, s.count(t, "cleat_policy_failures_total", "ManifestWriter", test.second.Writer,
					ReasonInvalidReply))
				require.Len(t, s.log.with("policy fails"), 1)
			})
		}
	}
}

func TestFailurePolicyFailMakesBackupError(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {manifestWriters: [{plugin: example.io/policy, failurePolicy: Fail, config: {do: fail}}]}\n")
	warnings, errs := s.describe(t, new(shelf).keep).Store(nil)
	require.Empty(t, warnings)
	require.Len(t, errs, 1)
}

func TestArtifactThatIsNotKeptOrStoredIsAFailure(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	var kept shelf
	for name, test := range map[string]struct {
		keep  Keep
		store func([]Artifact) error
	}{
		"kept":   {func(Artifact, io.Reader) error { return full }, nil},
		"stored": {kept.keep, func([]Artifact) error { return full }},
	} {
		s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList)
		warnings, errs := s.describe(t, test.keep).Store(test.store)
		require.Empty(t, errs, name)
		require.Len(t, warnings, 1, name)
		require.ErrorIs(t, warnings[0], full, name)
		require.ErrorContains(t, warnings[0], "ManifestWriter(cleat.dev/item-list): ", name)
		require.Equal(t, ReasonNotKept, s.Manifests.Status()[0].Reason, name)
	}
}

// TestWriterThatTakesNoItemsDoesNotHoldTheBackup has a writer that hangs before its first item, and more items than
// fit into its queue.
func TestWriterThatTakesNoItemsDoesNotHoldTheBackup(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList+
		"  - {plugin: example.io/policy, deadline: 1s, config: {do: hang first}}\n")
	var kept shelf
	manifest := s.Manifests.Begin(t.Context(), s.session(t), nightly, kept.keep)
	const many = 3 * maxQueued / itemOverhead
	for i := range many {
		manifest.Add(&manifestwriter.Item{Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop",
			Name:        fmt.Sprintf("web-%d", i),
			Annotations: map[string]string{"note": strings.Repeat("x", 200)}}, nil)
	}
	manifest.Finish()
	warnings, errs := manifest.Store(kept.store)
	require.Empty(t, errs)
	require.Len(t, warnings, 1)
	require.Equal(t, ReasonOverdue, s.Manifests.Status()[1].Reason, "%v", warnings)
	require.Equal(t, []Artifact{{"cleat.dev/item-list", "items.jsonl"}}, kept.stored)
	require.Equal(t, many, strings.Count(kept.kept[kept.stored[0]], "\n"))
}

// TestSlowWriterIsLeftOutWhenTheBackupHasWaitedForItsDeadline has a writer that makes progress with each item.
func TestSlowWriterIsLeftOutWhenTheBackupHasWaitedForItsDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	p := newPending(ctx, cancel, 20*time.Millisecond)
	go func() {
		for range p.batches {
			time.Sleep(time.Millisecond)
		}
	}()
	large := &manifestwriter.Item{Annotations: map[string]string{"note": strings.Repeat("x", maxQueued/4)}}
	for i := 0; ctx.Err() == nil; i++ {
		require.Less(t, i, 1_000_000, "it never ends")
		p.add(large)
	}
	p.close()
	require.Equal(t, ReasonOverdue, ReasonOf(context.Cause(ctx)))
	require.EqualError(t, context.Cause(ctx), "it takes items so slowly that the backup has waited for it for 20ms in "+
		"all, its deadline")
}

func TestWriterGetsTheObjectsThatItAsksFor(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList+
		"  - {plugin: example.io/second, config: {do: show objects}}\n")
	var kept shelf
	warnings, _ := s.describe(t, kept.keep).Store(kept.store)
	require.Empty(t, warnings)
	require.Equal(t, `{"kind":"Pod"}`, kept.kept[Artifact{"example.io/second", "objects"}])
}

func TestWriterCannotTakeNamesOfTheServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups: {manifestWriters: [{plugin: example.io/policy, config: {do: velero-backup.json}}]}\n")
	warnings, _ := s.describe(t, new(shelf).keep).Store(nil)
	require.Len(t, warnings, 1)
	require.EqualError(t, warnings[0], "ManifestWriter(example.io/policy): keep artifact velero-backup.json: invalid "+
		"reply: "+
		"velero-backup.json is the name of a file that each backup has; choose another name")
	require.Equal(t, ReasonInvalidReply, s.Manifests.Status()[0].Reason)
}

func TestCancelledBackupIsNoWriterFailure(t *testing.T) {
	t.Parallel()
	s := newSite(t, "backups:\n  manifestWriters:\n  "+itemList+"  - plugin: example.io/policy\n")
	ctx, cancel := context.WithCancel(t.Context())
	manifest := s.Manifests.Begin(ctx, s.session(t), nightly, new(shelf).keep)
	cancel()
	manifest.Finish()
	warnings, _ := manifest.Store(nil)
	require.Len(t, warnings, 2)

	manifest = s.Manifests.Begin(t.Context(), s.session(t), nightly, new(shelf).keep)
	manifest.Abort()
	for _, status := range s.Manifests.Status() {
		require.True(t, status.Working())
		require.Zero(t, status.Since)
	}
}
