package pluginhost

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// TestAcceptPlugins_HotSwap changes the plugin directory of a host in use. A test in server/test/plugins does the same
// with a whole server, backups and restores.
func TestAcceptPlugins_HotSwap(t *testing.T) {
	t.Parallel()
	t.Run("under load", testSwapUnderLoad)
	t.Run("a run keeps its plugins", testSwapInARun)
	t.Run("a location keeps its store until it is opened again", testSwapOfAStore)
	t.Run("a policy can be called after its file was replaced", testSwapOfAPolicy)
	t.Run("an unfinished file is not started", testSwapHalfAFile)
	t.Run("Kubernetes volume", testSwapAVolume)
	t.Run("sequence of changes", testSwapOneAfterTheOther)
	t.Run("change without an event", testSwapUnnoticed)
	t.Run("a hung plugin does not delay others", testSwapBesideOneThatHangs)
}

// version writes a plugin to path whose replies contain the version.
func version(t *testing.T, path string, version int) {
	t.Helper()
	writeScript(t, path, "CLEAT_TEST_VERSION="+strconv.Itoa(version))
}

// versionOf returns the version in the reply of an action.
func versionOf(ctx context.Context, action backupitemaction.Action) (int, error) {
	answer, err := execute(ctx, action, "version")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer["version"])
}

// seen returns the version that a new run sees, 0 if it does not see the plugin.
func (h *testHost) seen(t *testing.T) int {
	t.Helper()
	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	for _, action := range All(session, kinds.BackupItemActions()...) {
		if action.Name() == "example.io/behave" {
			seen, err := versionOf(t.Context(), action)
			require.NoError(t, err)
			return seen
		}
	}
	return 0
}

// requireSeen waits until new runs see a version. It does not call Rescan.
func (h *testHost) requireSeen(t *testing.T, version int) {
	t.Helper()
	require.Eventually(t, func() bool { return h.seen(t) == version }, longEnough, aMoment, "version %d", version)
}

// requireProcesses waits until the given number of processes runs.
func (h *testHost) requireProcesses(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(h.pool.Running()) == want
	}, longEnough, aMoment, "%d processes", want)
}

// testSwapUnderLoad has several runs call plugins while files are replaced, added and removed hundreds of times.
func testSwapUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		runs    = 8
		changes = 200
		calls   = 5
	)
	dir := pluginDir(t)
	version(t, filepath.Join(dir, "behave"), 1)
	h := newTestHost(t, dir, nil)

	var swapped atomic.Int64 // the last version that was put there
	swapped.Store(1)
	distinct := sync.Map{}
	over := make(chan struct{})
	ended := make(chan error, runs)
	step := make(chan struct{}, 1) // a run has completed
	for range runs {
		go func() {
			for {
				select {
				case <-over:
					ended <- nil
					return
				default:
				}
				first, err := h.run(t.Context(), calls)
				if err != nil {
					ended <- err
					return
				}
				distinct.Store(first, true)
				if newest := int(swapped.Load()); first < 1 || first > newest {
					ended <- fmt.Errorf("version %d, which was not there yet: the newest is %d", first, newest)
					return
				}
				select {
				case step <- struct{}{}:
				default:
				}
			}
		}()
	}
	extra := false
	for i := 2; i <= changes; i++ {
		switch other := filepath.Join(dir, "extra", "other"); {
		case i%3 != 0:
			swapped.Store(int64(i))
			version(t, filepath.Join(dir, "behave"), i)
		case extra:
			require.NoError(t, os.RemoveAll(filepath.Dir(other)))
			extra = false
		default:
			require.NoError(t, os.MkdirAll(filepath.Dir(other), 0o755))
			announced{lists: []string{bia}}.write(t, other, "")
			extra = true
		}
		if i%8 == 1 {
			newest := int(swapped.Load())
			require.Eventually(t, func() bool { _, seen := distinct.Load(newest); return seen }, longEnough, aMoment,
				"a run has version %d", newest)
		}
		select {
		case <-step:
		case err := <-ended:
			require.NoError(t, err)
		}
	}
	last := int(swapped.Load())
	h.requireSeen(t, last)
	close(over)
	for range runs {
		require.NoError(t, <-ended)
	}
	seen := 0
	distinct.Range(func(any, any) bool { seen++; return true })
	require.Greater(t, seen, changes/10, "runs saw different versions")

	files := 1
	if extra {
		files++
	}
	require.NoError(t, h.Rescan(t.Context()))
	h.requireProcesses(t, files)
	require.NotContains(t, h.log.String(), "[ERROR]")
	require.Eventually(t, func() bool { // replaced files are closed
		runtime.GC()
		return openFilesIn(t, dir) <= files
	}, longEnough, aMoment)
	t.Logf("%d changes, %d versions were seen by runs", changes, seen)
}

// run makes some calls in one session and returns the version in all replies.
func (h *testHost) run(ctx context.Context, calls int) (int, error) {
	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	first := 0
	for range calls {
		for _, action := range All(session, kinds.BackupItemActions()...) {
			if action.Name() != "example.io/behave" { // it is added and removed, but not within a run
				if action.Name() == "example.io/x" {
					if _, err := execute(ctx, action, "nothing"); err != nil {
						return 0, err
					}
				}
				continue
			}
			version, err := versionOf(ctx, action)
			if err != nil {
				return 0, err
			}
			if first == 0 {
				first = version
			}
			if version != first {
				return 0, fmt.Errorf("a run saw the versions %d and %d", first, version)
			}
		}
	}
	return first, nil
}

// openFilesIn counts the files below dir that this process has open, including replaced ones.
func openFilesIn(t *testing.T, dir string) int {
	t.Helper()
	descriptors, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	open := 0
	for _, descriptor := range descriptors {
		if to, err := os.Readlink("/proc/self/fd/" + descriptor.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			open++
		}
	}
	return open
}

func testSwapInARun(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t)
	path := filepath.Join(dir, "behave")
	version(t, path, 1)
	h := newTestHost(t, dir, nil)
	early, late := h.Session("", hclog.NewNullLogger()), h.Session("", hclog.NewNullLogger())
	action := actionNamed(t, early, "example.io/behave")
	first := processOf(t, action)
	forked, err := execute(t.Context(), action, "fork")
	require.NoError(t, err)
	child, err := strconv.Atoi(forked["child"])
	require.NoError(t, err)

	version(t, path, 2)
	h.requireSeen(t, 2)
	seen, err := versionOf(t.Context(), action)
	require.NoError(t, err)
	require.Equal(t, 1, seen)
	require.Equal(t, first, processOf(t, action), "the process with which the run began")

	_, err = execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	seen, err = versionOf(t.Context(), action)
	require.NoError(t, err)
	require.Equal(t, 1, seen, "the file with which the run began, started again")

	require.NoError(t, os.Remove(path))
	h.requireSeen(t, 0)
	require.Contains(t, h.log.String(), "plugin was removed")
	_, err = h.Find("BackupItemAction", "example.io/behave")
	require.EqualError(t, err,
		`unknown BackupItemAction "example.io/behave"; no plugin of the kind BackupItemAction was found`)
	seen, err = versionOf(t.Context(), actionNamed(t, late, "example.io/behave"))
	require.NoError(t, err)
	require.Equal(t, 1, seen, "also for a run that has made no call before")

	second := processOf(t, action)
	early.Close()
	require.Equal(t, second, processOf(t, actionNamed(t, late, "example.io/behave")), "another run still uses it")
	late.Close()
	requireReaped(t, second)
	requireReaped(t, child)
	h.requireProcesses(t, 0)

	seen, err = versionOf(t.Context(), action)
	require.NoError(t, err, "calls after the end of the session succeed")
	require.Equal(t, 1, seen)
	h.requireProcesses(t, 0)

	version(t, path, 3)
	h.requireSeen(t, 3)
}

func testSwapOfAStore(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t)
	version(t, filepath.Join(dir, "behave"), 1)
	h := newTestHost(t, dir, nil)
	config := map[string]string{"bucket": "b"}
	first, err := h.ObjectStore(t.Context(), "default", "example.io/store", config)
	require.NoError(t, err)
	old := storeProcess(t, first)

	version(t, filepath.Join(dir, "behave"), 2)
	h.requireSeen(t, 2)
	require.Equal(t, old, storeProcess(t, first), "callers keep the store that they have")
	second, err := h.ObjectStore(t.Context(), "default", "example.io/store", config)
	require.NoError(t, err)
	require.NotEqual(t, old, storeProcess(t, second))
	again, err := h.ObjectStore(t.Context(), "default", "example.io/store", config)
	require.NoError(t, err)
	require.Equal(t, storeProcess(t, second), storeProcess(t, again))
	require.Equal(t, old, storeProcess(t, first))

	require.NoError(t, os.Remove(filepath.Join(dir, "behave")))
	require.NoError(t, h.Rescan(t.Context()))
	_, err = h.ObjectStore(t.Context(), "default", "example.io/store", config)
	require.EqualError(t, err,
		`unknown object store provider "example.io/store"; no plugin of the kind ObjectStore was found`)
	require.Equal(t, old, storeProcess(t, first))
}

func testSwapOfAPolicy(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t), nil)
	path := filepath.Join(h.dir, "policy")
	offers := announced{informs: []string{"QueueAdmission"}}
	offers.write(t, path, "# one\n")
	require.NoError(t, h.Rescan(t.Context()))
	ask := func(policy queueadmission.Policy) {
		t.Helper()
		_, err := policy.Decide(t.Context(), &queueadmission.Snapshot{
			Input: queueadmission.Input{Now: time.Unix(1_700_000_000, 0), Limit: 1}})
		require.NoError(t, err)
	}
	first, err := Named(h, kinds.QueueAdmission(), "example.io/x")
	require.NoError(t, err)
	ask(first)
	offers.write(t, path, "# two\n")
	require.NoError(t, h.Rescan(t.Context()))
	second, err := Named(h, kinds.QueueAdmission(), "example.io/x")
	require.NoError(t, err)
	h.requireProcesses(t, 1)
	ask(first)
	ask(second)
	h.requireProcesses(t, 1)

	require.NoError(t, os.Remove(path))
	require.NoError(t, h.Rescan(t.Context()))
	_, err = Named(h, kinds.QueueAdmission(), "example.io/x")
	require.EqualError(t, err, `unknown QueueAdmission "example.io/x"; no plugin of the kind QueueAdmission was found`)
	h.requireProcesses(t, 0)
	ask(second)
	require.Equal(t, 4, h.journalCount("called /cleat.queueadmission.v1.QueueAdmissionService/Decide of example.io/x"))
	h.requireProcesses(t, 0)
}

func testSwapHalfAFile(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t), nil)
	path := filepath.Join(h.dir, "behave")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	binary, err := buildMisbehave()
	require.NoError(t, err)
	// The first content is a program, but not the final one.
	_, err = fmt.Fprintf(file, "#!/bin/sh\necho half >> $CLEAT_TEST_JOURNAL\n")
	require.NoError(t, err)

	// Several scans find the file unchanged.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, h.Rescan(ctx), context.DeadlineExceeded, "Rescan waits for the file")
	require.Empty(t, h.Entries())

	_, err = fmt.Fprintf(file, "CLEAT_TEST_VERSION=1 exec %s \"$@\"\n", binary)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	h.requireSeen(t, 1)
	require.Equal(t, h.journalCount("start"), h.journalCount("half"), "every start was of the complete file")
	require.NotContains(t, h.log.String(), "[ERROR]")

	for _, name := range []string{".behave", "behave.tmp", "behave.part", ".behave.swp", "behave~"} {
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, name), []byte("not finished"), 0o755))
	}
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, 1, h.seen(t))
	for _, e := range h.Entries() {
		require.Equal(t, path, e.Command)
	}
}

// testSwapAVolume swaps the links of a mounted ConfigMap or Secret as the kubelet does.
func testSwapAVolume(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t)
	publish := func(generation int) {
		data := fmt.Sprintf("..2026_%d", generation)
		require.NoError(t, os.Mkdir(filepath.Join(dir, data), 0o755))
		version(t, filepath.Join(dir, data, "behave"), generation)
		require.NoError(t, os.Symlink(data, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		if generation == 1 {
			require.NoError(t, os.Symlink("..data/behave", filepath.Join(dir, "behave")))
			return
		}
		require.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%d", generation-1))))
	}
	publish(1)
	h := newTestHost(t, dir, nil)
	session := h.Session("", hclog.NewNullLogger())
	defer session.Close()
	for generation := 2; generation < 6; generation++ {
		publish(generation)
		h.requireSeen(t, generation)
	}
	action := actionNamed(t, session, "example.io/behave")
	_, err := execute(t.Context(), action, "exit")
	require.ErrorAs(t, err, new(*calls.DiedError))
	seen, err := versionOf(t.Context(), action)
	require.NoError(t, err)
	require.Equal(t, 1, seen, "also after the file was removed")
}

// testSwapOneAfterTheOther checks the entries and log lines when plugins are added and removed.
func testSwapOneAfterTheOther(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t)
	version(t, filepath.Join(dir, "a", "behave"), 1)
	version(t, filepath.Join(dir, "b", "behave"), 2)
	writeExecutable(t, filepath.Join(dir, "c"), "#!/bin/sh\necho not yet >&2\nexit 3\n")
	h := newTestHost(t, dir, nil)
	quarantined := func() (reasons []string) {
		for _, e := range h.Entries() {
			if e.Quarantined != "" {
				reasons = append(reasons, strings.TrimPrefix(e.Command, dir)+" "+e.Kind)
			}
		}
		return reasons
	}
	names := []string{"/b/behave BackupItemAction", "/b/behave ObjectStore", "/b/behave RestoreItemAction",
		"/b/behave AsyncBackupItemAction"}
	require.ElementsMatch(t, append(names, "/c "), quarantined())
	require.Equal(t, 1, h.seen(t))
	running := processOf(t, h.behave(t))

	starts := h.journalCount("start")
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, starts, h.journalCount("start"), "a scan without changes starts no process")

	announced{lists: []string{bia}}.write(t, filepath.Join(dir, "c"), "")
	require.NoError(t, h.Rescan(t.Context()))
	require.ElementsMatch(t, names, quarantined(), "the changed file is tried")
	require.Equal(t, running, processOf(t, h.behave(t)), "unchanged plugins keep running")

	require.NoError(t, os.Chmod(filepath.Join(dir, "a", "behave"), 0o700))
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, running, processOf(t, h.behave(t)), "a new mode does not restart it")

	version(t, filepath.Join(dir, "a", "behave"), 1)
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, running, processOf(t, h.behave(t)), "another file with the same content does not restart it")

	require.NoError(t, os.Remove(filepath.Join(dir, "a", "behave")))
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, 2, h.seen(t), "the second binary provides the names now")
	require.Empty(t, quarantined())
	require.Regexp(t, regexp.QuoteMeta("[INFO]  plugin found: cmd="+filepath.Join(dir, "b", "behave"))+
		// built out of a repository it has one
		" kind=BackupItemAction plugin=example.io/behave (pluginVersion=.* )?version=1 used=true", h.log.String())
	require.Contains(t, h.log.String(), "[INFO]  plugin was removed: cmd="+filepath.Join(dir, "a", "behave")+
		" kind=BackupItemAction plugin=example.io/behave")

	writeExecutable(t, filepath.Join(dir, "b", "new.tmp"), "#!/bin/sh\nexit 4\n")
	require.NoError(t, os.Rename(filepath.Join(dir, "b", "new.tmp"), filepath.Join(dir, "b", "behave")))
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, []string{"/b/behave "}, quarantined(), "the replacement is broken")
	require.Zero(t, h.seen(t))
}

// testSwapUnnoticed replaces a file in a way that the operating system does not report.
func testSwapUnnoticed(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	dir, elsewhere := pluginDir(t), pluginDir(t)
	for i := 1; i <= 2; i++ {
		version(t, filepath.Join(elsewhere, strconv.Itoa(i), "behave"), i)
	}
	current := filepath.Join(elsewhere, "current")
	require.NoError(t, os.Symlink("1", current))
	require.NoError(t, os.Symlink(filepath.Join(current, "behave"), filepath.Join(dir, "behave")))
	h := newTestHost(t, dir, func(c *Config) { c.Clock, c.Rescan = clock, time.Minute })
	require.Equal(t, 1, h.seen(t))

	require.NoError(t, os.Symlink("2", current+".new"))
	require.NoError(t, os.Rename(current+".new", current))
	require.Eventually(t, func() bool {
		clock.Step(time.Minute)
		return h.seen(t) == 2
	}, longEnough, aMoment)
}

func testSwapBesideOneThatHangs(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t), func(c *Config) { c.Deadlines.Start, c.patience = time.Hour, 200*time.Millisecond })
	hangs := filepath.Join(h.dir, "a")
	writeExecutable(t, hangs+".tmp", "#!/bin/sh\necho hanging $$ >> $CLEAT_TEST_JOURNAL\nsleep 3600\n")
	require.NoError(t, os.Rename(hangs+".tmp", hangs))
	var pid int
	require.Eventually(t, func() bool {
		_, err := fmt.Sscanf(strings.Join(h.journalLines(), ""), "hanging %d", &pid)
		return err == nil
	}, longEnough, aMoment)
	for i := 1; i <= 3; i++ {
		version(t, filepath.Join(h.dir, "b"), i)
		h.requireSeen(t, i)
	}
	for _, e := range h.Entries() {
		require.NotEqual(t, hangs, e.Command, "it has not listed its plugins yet")
	}
	announced{lists: []string{bia}}.write(t, hangs, "")
	require.NoError(t, h.Rescan(t.Context()))
	require.Equal(t, hangs, h.Entries()[0].Command, "it was replaced and has listed its plugins")
	requireReaped(t, pid)
	h.requireProcesses(t, 1) // one that does not tell what it is serves runs only, and there is none
	require.NotContains(t, h.log.String(), "[ERROR]")
}

func TestClosedHostDoesNotScan(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t), nil)
	h.Close()
	version(t, filepath.Join(h.dir, "behave"), 1)
	require.ErrorIs(t, h.Rescan(t.Context()), process.ErrClosed)
	require.Empty(t, h.Entries())
}
