package pluginhost

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

func TestPluginThatDiesWhileItIsAskedIsAskedAgain(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "list-dies-4"), func(c *Config) { c.Rescan = -1 })
	require.Empty(t, h.refused())
	require.Equal(t, 5, h.journalCount("start"))
	session := h.Session("", h.log.logger())
	t.Cleanup(session.Close)
	require.Empty(t, session.WarnOfAbsent(kinds.BackupItemAction().Name))
	_, err := execute(t.Context(), h.behave(t), "nothing")
	require.NoError(t, err)
}

func TestCallIsRepeatedIfThePluginDiesBeforeIt(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "dies-at-start-2"), func(c *Config) { c.Rescan = -1 })
	action := h.behave(t)
	_, err := execute(t.Context(), action, "exit")
	require.ErrorContains(t, err, "died during Execute: exit status 3", "it may have done something")
	_, err = execute(t.Context(), action, "nothing")
	require.NoError(t, err)
	require.Equal(t, 3, h.journalCount("start"))
}

func TestQuarantinedPluginIsAskedAgainLater(t *testing.T) {
	t.Parallel()
	const coolDown = 2 * time.Second // longer than a question takes on a busy machine
	h := newTestHost(t, pluginDir(t, "list-dies-12"), func(c *Config) {
		c.Rescan = -1
		c.Restart = process.Restart{Backoff: time.Millisecond, CoolDown: coolDown}
	})
	for round, starts := range []int{5, 10} {
		require.Equal(t, starts, h.journalCount("start"))
		require.Equal(t, "list plugins: plugin /plugins/list-dies-12 died during ListPlugins: exit status 9",
			strings.Split(h.refused(), ";")[0])
		session, log := h.Session("", h.log.logger()), "the plugins of "+h.dir+
			"/list-dies-12 are not in force, because it is quarantined: "
		absent := session.WarnOfAbsent(kinds.BackupItemAction().Name)
		require.Len(t, absent, 1)
		require.True(t, strings.HasPrefix(absent[0], log), absent[0])
		require.NotContains(t, absent[0], "this goes through the connection")
		require.Contains(t, h.log.String(), "[WARN]  "+log)
		session.Close()
		time.Sleep(time.Duration(1+round) * coolDown) // each is twice as long as the one before
		require.NoError(t, h.Rescan(t.Context()))
	}
	require.Empty(t, h.refused())
	require.Equal(t, 13, h.journalCount("start"))
}

func TestQuarantinedPluginIsLeftAloneForTheCoolDown(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "list-dies"), func(c *Config) { c.Rescan = -1 })
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, 5, h.journalCount("start"))
}

func TestAbsentPluginsAreThoseOfTheKinds(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "lists-nonsense"), nil)
	session := h.Session("", hclog.NewNullLogger())
	t.Cleanup(session.Close)
	require.Equal(t, []string{
		`BackupItemAction noslash of ` + h.dir +
			`/lists-nonsense is not in force, because it is quarantined: plugin name "noslash" must be "domain/name", like "example.io/stamp"`,
	}, session.WarnOfAbsent(kinds.BackupItemAction().Name), "not the one that is listed twice")
	require.Empty(t, session.WarnOfAbsent(kinds.ObjectStore().Name))
}
