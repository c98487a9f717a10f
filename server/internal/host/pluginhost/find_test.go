package pluginhost

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/loadsoothing/preparequeue"
	"github.com/cleat-dev/cleat/plugins/manifestwriter/itemlist"
	"github.com/cleat-dev/cleat/plugins/queueadmission/fifo"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/directory"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

func TestPoliciesAreFoundByName(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, "", func(c *Config) {
		c.BuiltIns = []framework.Registration{fifo.Register(), preparequeue.Register(), itemlist.Register()}
	})
	admission, err := Named(h, kinds.QueueAdmission(), "cleat.dev/fifo")
	require.NoError(t, err)
	decision, err := admission.Decide(t.Context(), &queueadmission.Snapshot{Input: queueadmission.Input{
		Now: time.Now(), Limit: 1, Queued: []queueadmission.Backup{{Name: "first"}, {Name: "second"}},
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, decision.Admit)

	soothing, err := Named(h, kinds.LoadSoothing(), "cleat.dev/prepare-queue")
	require.NoError(t, err)
	admitted, err := soothing.Admit(t.Context(),
		&loadsoothing.Request{Input: loadsoothing.Input{Now: time.Now(),
			Load: loadsoothing.Load{Kind: "DataUpload", Name: "d"}}})
	require.NoError(t, err)
	require.True(t, admitted.Admitted)

	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	writer, err := Named(session, kinds.ManifestWriter(), "cleat.dev/item-list")
	require.NoError(t, err)
	var kept []string
	manifest, err := writer.Begin(t.Context(), manifestwriter.Input{Backup: backupJSON},
		func(name string, content io.Reader) error {
			kept = append(kept, name)
			_, err := readAll(content)
			return err
		})
	require.NoError(t, err)
	require.NoError(t, manifest.Finish())
	require.Len(t, kept, 1)

	_, err = Named(session, kinds.ManifestWriter(), "cleat.dev/fifo")
	require.EqualError(t, err, `"cleat.dev/fifo" is not a ManifestWriter but a plugin of the kind QueueAdmission`)
	_, err = Named(h, kinds.LoadSoothing(), "limit")
	require.EqualError(t, err, `unknown LoadSoothing "velero.io/limit"; known are: cleat.dev/prepare-queue`)
}

func TestFindExplainsFailure(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave", "exits", "lists-nonsense"), nil)
	announced{lists: []string{riaV2 + "=example.io/new", biaV3 + "=example.io/new"}}.write(t, h.dir+"/new", "")
	require.NoError(t, h.Rescan(t.Context()))

	entry, err := h.Find("BackupItemAction", "example.io/behave")
	require.NoError(t, err)
	require.Equal(t, 1, entry.Version)
	require.True(t, entry.Used)
	entry, err = h.Find("RestoreItemAction", "example.io/new")
	require.NoError(t, err)
	require.Equal(t, 2, entry.Version)

	const exits = `/plugins/exits (plugin /plugins/exits died during start: exit status 3; last on stderr: cannot read /etc/plugin.yaml: no such file or directory)`
	for _, test := range []struct{ kind, name, want string }{
		{"BackupItemAction", "example.io/behav",
			`unknown BackupItemAction "example.io/behav"; known are: example.io/behave, example.io/fine; quarantined: ` + exits},
		{"BackupItemAction", "stamp",
			`unknown BackupItemAction "velero.io/stamp"; known are: example.io/behave, example.io/fine; quarantined: ` + exits},
		{"ItemBlockAction", "example.io/x",
			`unknown ItemBlockAction "example.io/x"; no plugin of the kind ItemBlockAction was found; quarantined: ` + exits},
		{"QueueAdmission", "example.io/store",
			`"example.io/store" is not a QueueAdmission but a plugin of the kind ObjectStore; quarantined: ` + exits},
		{"BackupItemAction", "example.io/new",
			`BackupItemAction "example.io/new" cannot be used: this server knows versions 1 and 2 of BackupItemAction, not 3; quarantined: ` + exits},
		{"ItemWatcher", "example.io/x", `this server does not know the kind "ItemWatcher"; quarantined: ` + exits},
		{"DeleteItemAction", "example.io/fine",
			`"example.io/fine" is not a DeleteItemAction but a plugin of the kind BackupItemAction; quarantined: ` + exits +
				`, /plugins/lists-nonsense (DeleteItemAction is announced but not served)`},
	} {
		_, err := h.Find(test.kind, test.name)
		require.Equal(t, test.want, h.golden(err))
	}
}

func TestActionsRunInConfiguredOrder(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t)
	announced{lists: []string{bia + "=example.io/a", bia + "=example.io/b", biaV2 + "=example.io/a",
		ria + "=example.io/b"}, informs: []string{abia + "=example.io/n"}}.write(t, dir+"/1", "")
	announced{lists: []string{biaV2 + "=example.io/c", bia + "=velero.io/d"},
		informs: []string{abia + "=example.io/m"}}.write(t, dir+"/2", "")
	for name, test := range map[string]struct{ order, want string }{
		"none": {"", "cleat.dev/own example.io/a example.io/b example.io/c velero.io/d example.io/m example.io/n"},
		"some first": {"d example.io/b", "velero.io/d example.io/b cleat.dev/own example.io/a example.io/c " +
			"example.io/m example.io/n"},
		"some last": {"* cleat.dev/own example.io/a",
			"example.io/b example.io/c velero.io/d cleat.dev/own example.io/a example.io/m example.io/n"},
		"around the rest": {"example.io/c * example.io/a",
			"example.io/c cleat.dev/own example.io/b velero.io/d example.io/a example.io/m example.io/n"},
		"asynchronous": {"example.io/n", "cleat.dev/own example.io/a example.io/b example.io/c velero.io/d example.io/n " +
			"example.io/m"},
		"who is not here": {"example.io/nobody example.io/b",
			"example.io/b cleat.dev/own example.io/a example.io/c velero.io/d example.io/m example.io/n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, dir, func(c *Config) {
				c.BuiltIns, c.Order = builtIns("cleat.dev/own"), strings.Fields(test.order)
			})
			session := h.Session("", hclog.NewNullLogger())
			defer session.Close()
			require.Equal(t, test.want, strings.Join(names(All(session, kinds.BackupItemActions()...)), " "))
			require.Equal(t, strings.Contains(test.order, "nobody"),
				strings.Contains(h.log.String(),
					`[WARN]  the order of plugins names some that were not found: names=["example.io/nobody"]`), h.log.String())
		})
	}
	_, err := New(t.Context(), Config{Log: hclog.NewNullLogger(), Order: []string{"aws", "*", "velero.io/aws"}})
	require.EqualError(t, err, `order of plugins: "velero.io/aws" is listed twice`)
}

func TestFileRemovedDuringScanIsNotQuarantined(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, "", nil)
	removed := directory.File{Path: filepath.Join(t.TempDir(), "removed")}
	sources, unfinished := h.scanner.sourcesOf(directory.Seen{Files: []directory.File{removed},
		Trust: h.directory.Trust()}, map[string]*source{})
	require.Empty(t, sources)
	require.True(t, unfinished, "the next look knows")
}
