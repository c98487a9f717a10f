package operations_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/test/site"
)

// atWork is a backup or restore whose run cannot end before a call of proceed: one of its items waits in the call of
// an action.
type atWork struct {
	*site.Site
	works  *site.Works
	course string // "backup" or "restore"
	name   string
	from   string // the namespace of the items
	shop   string // the namespace into which they are restored
}

// begin begins a backup, or the restore of one, with the items that start creates.
func begin(w *site.Works, course string, start func(shop string)) *atWork {
	s := w.Site
	s.T.Helper()
	r := &atWork{Site: s, works: w, course: course, name: "nightly", from: s.Workload(1)}
	r.shop = r.from
	start(r.from)
	s.Item(r.from, "z-last", "keyed", "as", "waits in Start", "in", course)
	if course == "restore" {
		s.BeginBackupOf("source", r.from)
		s.AwaitBackup("source", velerov1.BackupPhaseCompleted)
		r.shop += "-copy"
		s.RestoreTo(r.name, "source", r.from, r.shop)
	} else {
		s.BeginBackupOf(r.name, r.from)
	}
	return r
}

// run returns the state of the run.
func (r *atWork) run(ctx context.Context) (status.Run, error) {
	if r.course == "restore" {
		var restore velerov1.Restore
		err := r.Client.Get(ctx, r.Key(r.name), &restore)
		return status.RestoreRun(&restore), err
	}
	var b velerov1.Backup
	err := r.Client.Get(ctx, r.Key(r.name), &b)
	return status.BackupRun(&b), err
}

// awaitCounts waits until the status counts these operations, and requires that the run is still in progress.
func (r *atWork) awaitCounts(open, completed, failed int) {
	r.T.Helper()
	want := serverreport.Summary{Open: open, Completed: completed, Failed: failed}
	r.Eventually(fmt.Sprintf("the status counts %+v", want), func(ctx context.Context) (bool, error) {
		now, err := r.run(ctx)
		if err == nil && now.Operations.Open == open && now.Operations.Completed == completed &&
			now.Operations.Failed == failed {
			require.Equal(r.T, "InProgress", now.Phase)
			return true, nil
		}
		return false, err
	})
}

// awaitShown waits until "cleat operations" prints a line, and requires that the run is still in progress.
func (r *atWork) awaitShown(line string) {
	r.T.Helper()
	pattern := regexp.MustCompile("(?m)^" + r.course + "/" + r.name + " +" + line)
	r.Eventually("the operations show "+line, func(ctx context.Context) (bool, error) {
		shown := pattern.MatchString(r.Must("operations", "--"+r.course, r.name))
		now, err := r.run(ctx)
		if err != nil {
			return false, err
		}
		require.Equal(r.T, "InProgress", now.Phase)
		return shown, nil
	})
}

// proceed lets the run continue, and returns its final state.
func (r *atWork) proceed() status.Run {
	r.T.Helper()
	require.NoError(r.T, os.WriteFile(filepath.Join(r.works.Dir, "go"), nil, 0o600))
	return r.awaitRunEnd()
}

func (r *atWork) awaitRunEnd() (ended status.Run) {
	r.T.Helper()
	r.Eventually("it has ended", func(ctx context.Context) (_ bool, err error) {
		ended, err = r.run(ctx)
		return ended.Ended(), err
	})
	return ended
}

// courses runs a test for a backup and for a restore.
func courses(t *testing.T, name string, test func(t *testing.T, course string)) {
	t.Helper()
	for _, course := range []string{"backup", "restore"} {
		t.Run(course+" "+name, func(t *testing.T) {
			t.Parallel()
			test(t, course)
		})
	}
}

// TestAcceptOperations_FollowedDuringRun checks the operations of backups and restores whose run is in progress: they
// are polled, limited, shown and cancelled, and outlive the server.
func TestAcceptOperations_FollowedDuringRun(t *testing.T) {
	t.Parallel()
	courses(t, "shows and limits them", func(t *testing.T, course string) {
		s := site.New(t, "cleat.dev/s3")
		w := s.Work("operations: {plugins: {example.io/keyless: {timeout: 3s}}}")
		server := s.Serve(w.Args...)
		s.Available()
		r := begin(w, course, func(shop string) {
			s.Item(shop, "limited", "keyless", "length", "10h", "in", course)
			s.Item(shop, "long", "keyed", "length", "10h", "in", course)
			s.Item(shop, "short", "keyed", "length", "1s", "in", course)
		})
		r.awaitCounts(1, 1, 1)
		r.awaitShown(`2 of 3 ended, 1 failed +.* \(sum\)`)
		r.awaitShown(`InProgress +\d+.* B of 1000 B +\d+% +.* configmaps/` + r.shop + `/long +example.io/worker +working$`)
		r.awaitShown(`Completed +1000 B of 1000 B +100% .*/short `)
		r.awaitShown(`Failed +.*/limited +example.io/keyless +timed out after 3s`)
		require.Contains(t, s.Must(course, "describe", r.name),
			" Item Operations:  1 of 3 completed successfully, 1 failed, 1 open (specify --details for more information)\n")
		described := s.Must(course, "describe", r.name, "--details")
		require.Regexp(t, `(?m)^  InProgress +\d+.* configmaps/`+r.shop+`/long +example.io/worker +working$`, described)
		require.NotContains(t, described, "the server has made no URL")

		server.Kill()
		require.Regexp(t, `(?m)^`+course+`/nightly +2 of 3 ended, 1 failed +- .* \(sum\) +the `+course+
			` is in progress: .*; 1 without numbers$`,
			s.Must("operations", "--timeout", "100ms"), "without a server, the status counts them")
		require.Equal(t, 1, w.Notes()["cancel "+course+"/"+r.from+"/limited"])
	})
	courses(t, "has them outlive the server", func(t *testing.T, course string) {
		s := site.New(t, "cleat.dev/s3")
		w := s.Work()
		server := s.Serve(w.Args...)
		s.Available()
		r := begin(w, course, func(shop string) {
			s.Item(shop, "held", "keyed", "length", "held", "in", course)
			s.Item(shop, "short", "keyed", "length", "1s", "in", course)
		})
		r.awaitCounts(1, 1, 0)
		s.Eventually("the starts are recorded", func(ctx context.Context) (bool, error) {
			return isRecorded(ctx, s, "held") && isRecorded(ctx, s, "short"), nil
		})
		server.Kill()
		killed := time.Now()
		s.Serve(w.Args...)
		r.awaitShown(`InProgress +.*/held +example.io/worker +working$`)
		r.awaitShown(`Completed +.*/short `)
		r.awaitCounts(1, 1, 0)
		w.Finish()
		r.awaitCounts(0, 2, 0)
		ended := r.proceed()
		require.Equal(t, "Completed", ended.Phase)
		require.Equal(t, 3, ended.Operations.Completed)
		w.RequireOnce(course, r.from, "held", "short", "z-last")
		s.AwaitNoJournals()
		if course == "backup" {
			for _, o := range s.Operations(s.Backup(r.name)) {
				require.Equal(t, operation.Completed, o.Phase)
				require.True(t, o.Created.Before(killed), "%s counts from its start", o.Item)
			}
		}
	})
	courses(t, "cancels them", func(t *testing.T, course string) {
		s := site.New(t, "cleat.dev/s3")
		w := s.Work()
		s.Serve(w.Args...)
		s.Available()
		r := begin(w, course, func(shop string) {
			s.Item(shop, "long", "keyed", "length", "10h", "in", course)
			s.Item(shop, "stubborn", "keyed", "length", "10h", "as", "ignores Cancel", "in", course)
			s.Item(shop, "short", "keyed", "length", "1s", "in", course)
		})
		r.awaitCounts(2, 1, 0)
		require.Regexp(t, `has ended: Failed\.\n$`, s.Must(course, "cancel", r.name, "--wait"))
		s.Eventually("it is shown why they are cancelled", func(context.Context) (bool, error) {
			shown := s.Must(course, "describe", r.name, "--details")
			return regexp.MustCompile(`/stubborn +example.io/worker +being cancelled: it was cancelled on request`).MatchString(
				shown,
			), nil
		})
		ended, err := r.run(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, ended.Operations.Completed)
		require.Contains(t, s.Must(course, "describe", r.name), fmt.Sprintf("1 of 3 completed successfully, %d failed",
			ended.Operations.Failed))
		if ended.Operations.Open > 0 {
			require.Contains(t, s.Must(course, "describe", r.name), fmt.Sprintf(", %d cancelled because the %s failed\n",
				ended.Operations.Open, course))
		}
		for _, item := range []string{"long", "stubborn"} {
			require.Equal(t, 1, w.Notes()["cancel "+course+"/"+r.from+"/"+item], item)
		}
		require.Zero(t, w.Notes()["cancel "+course+"/"+r.from+"/short"])
	})
	courses(t, "ends although all have ended before it", func(t *testing.T, course string) {
		s := site.New(t, "cleat.dev/s3")
		w := s.Work()
		s.Serve(w.Args...)
		s.Available()
		r := begin(w, course, func(shop string) {
			s.Item(shop, "fails", "keyed", "as", "fails", "length", "1ms", "in", course)
			s.Item(shop, "short", "keyed", "length", "1ms", "in", course)
		})
		r.awaitCounts(0, 1, 1)
		ended := r.proceed()
		require.Equal(t, "PartiallyFailed", ended.Phase)
		require.Equal(t, []int{2, 1, 1}, []int{ended.Operations.Completed, ended.Operations.Failed, ended.Errors})
		described := s.Must(course, "describe", r.name, "--details")
		require.Contains(t, described, "failed as requested")
		require.Equal(t, 1, strings.Count(described, "of example.io/worker failed"), "the error is there once: %s", described)
		s.AwaitNoJournals()
	})
}

// TestAcceptOperations_LimitsAndProgressOfAuthors has an author that declares time limits of operations, and reports
// the output of their work.
func TestAcceptOperations_LimitsAndProgressOfAuthors(t *testing.T) {
	t.Parallel()
	courses(t, "has the limits and lines of its authors", func(t *testing.T, course string) {
		s := site.New(t, "cleat.dev/s3")
		w := s.Work()
		s.Serve(w.Args...)
		s.Available()
		r := begin(w, course, func(shop string) {
			s.Item(shop, "endless", "limited", "length", "10h", "as", "lies", "in", course)
			s.Item(shop, "silent", "stalling", "length", "10h", "as", "silent", "in", course)
			s.Item(shop, "fails", "keyed", "length", "1ms", "as", "fails", "in", course)
			s.Item(shop, "short", "keyed", "length", "1ms", "in", course)
		})
		r.awaitCounts(0, 1, 3)
		require.Equal(t, "PartiallyFailed", r.proceed().Phase)
		described := s.Must(course, "describe", r.name, "--details")
		require.Regexp(t, `(?m)^  Failed .*/endless +example.io/limited .*timed out after 3s`, described)
		require.Regexp(t, `(?m)^  Failed .*/silent +example.io/stalling .*made no progress for 2s`, described)
		const lines = ":\n    reading block 7\n    block 7 cannot be read\uFFFD[2J\n"
		require.Contains(t, described, "  Last lines of example.io/worker for configmaps/"+r.shop+"/fails"+lines)
		require.Contains(t, described, "  Last lines of example.io/stalling for configmaps/"+r.shop+"/silent"+lines)
		require.Equal(t, 2, strings.Count(described, "Last lines"))
		var document struct {
			Operations struct {
				Owners []struct {
					Operations []struct{ Name, LastLines string }
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(s.Must(course, "describe", r.name, "--details", "-o", "json")), &document))
		reported := map[string]string{}
		for _, o := range document.Operations.Owners[0].Operations {
			reported[o.Name] = o.LastLines
		}
		const text = "reading block 7\nblock 7 cannot be read\x1b[2J"
		require.Equal(t, map[string]string{"endless": "", "silent": text, "fails": text, "short": "", "z-last": ""}, reported)

		info := s.Must("plugin", "info", "example.io/stalling")
		require.Regexp(t, `Limits of operations, unless configured:\n +Timeout: +1h0m0s\n +Without progress: +2s\n`, info)
		require.NotContains(t, s.Must("plugin", "info", "example.io/worker"), "Limits of operations")
	})
	courses(t, "has the limits of its user", func(t *testing.T, course string) {
		s := site.New(t, "cleat.dev/s3")
		w := s.Work("operations: {plugins: {example.io/limited: {timeout: none, stallTimeout: none}}}")
		s.Serve(w.Args...)
		s.Available()
		r := begin(w, course, func(shop string) { s.Item(shop, "lasts", "limited", "length", "5s", "in", course) })
		r.awaitCounts(0, 1, 0)
		require.Equal(t, "Completed", r.proceed().Phase)
	})
}
