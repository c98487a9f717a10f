package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// far is how much later answers of the distant S3 arrive.
const far = 20 * time.Millisecond

// volumeWorks are the works of compareVolumes on one tree and one kind of place.
type volumeWorks struct {
	remote bool // in S3, far away
	runs   int
	tree   treeSize
	of     string // describes the tree and the place
}

var comparedVolumes = []volumeWorks{
	{runs: compareRuns, tree: fullTree, of: "a volume of 50,000 files"},
	{remote: true, runs: 1, tree: treeSize{small: 5000, large: 1}, of: "a volume of 5,000 files in S3, 20 ms away"},
}

// names are those of the works.
func (w volumeWorks) names() []string {
	return []string{"a backup of " + w.of, "the same once more", "a restore of it"}
}

// included reports whether a work is one of those that the user has named.
func (w volumeWorks) included(only string) bool { return strings.Contains(w.of, only) }

// volumeSide backs up and restores a volume, with a repository of its own and without anything that earlier calls have
// cached.
type volumeSide interface {
	create(ctx context.Context) error
	backUp(ctx context.Context) (usage, error)
	restore(ctx context.Context) (usage, error)
	// forget removes caches and what was restored.
	forget() error
}

// compareVolumes measures backups and restores of a volume by cleat, from the creation of a PodVolumeBackup or
// PodVolumeRestore to its end, and by Velero's library, in a process that does nothing else. The CPU seconds of cleat
// include those of the node agent; the memory is that of the processes of the mover, because Velero's library is not
// in an agent either. All files but those in S3 are in memory if they fit.
func compareVolumes(ctx context.Context, cleat string, built *velero.Programs, only string) error {
	return onMoverSite(findKopia, "", func(ctx context.Context, m *moverSite, _ func(string, float64)) error {
		fmt.Printf("\n| work | seconds cleat | Velero %s | CPU seconds cleat | Velero | MB cleat | Velero "+
			"|\n|---|---|---|---|---|---|---|\n", velero.Version)
		for _, w := range comparedVolumes {
			if !w.included(only) {
				continue
			}
			if err := m.compare(ctx, built, w); err != nil {
				return fmt.Errorf("%s: %w", w.of, err)
			}
		}
		return nil
	})(ctx, cleat, nil)
}

// compare does some works by both sides, and prints a row for each.
func (m *moverSite) compare(ctx context.Context, built *velero.Programs, w volumeWorks) error {
	var used [3][2][]usage // by work and side
	var stored [2][]float64
	for round := range w.runs {
		sides, places, end, err := m.sides(ctx, built, fmt.Sprintf("compared-%d-%d", w.tree.small, round), w)
		if err != nil {
			return err
		}
		for i, side := range sides {
			if err := side.create(ctx); err != nil {
				return err
			}
			for work, do := range []func(context.Context) (usage, error){side.backUp, side.backUp, side.restore} {
				if err := side.forget(); err != nil {
					return err
				}
				u, err := do(ctx)
				if err != nil {
					return err
				}
				say("%s, %s: %.2fs, %.2fs CPU, %.0f MB", contenders[i], w.names()[work], u.seconds, u.cpu, u.megabytes)
				used[work][i] = append(used[work][i], u)
			}
			size, err := sizeOf(places[i])
			if err = errors.Join(err, side.forget()); err != nil {
				return err
			}
			stored[i] = append(stored[i], size)
		}
		if err := end(); err != nil {
			return err
		}
	}
	for work, name := range w.names() {
		a, b := medians(used[work][0]), medians(used[work][1])
		fmt.Printf("| %s | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f |\n", name, a.seconds, b.seconds, a.cpu, b.cpu,
			a.megabytes, b.megabytes)
	}
	fmt.Printf("| MB stored of it | | | | | %.0f | %.0f |\n", median(stored[0]), median(stored[1]))
	return nil
}

var contenders = [2]string{"cleat", "Velero"}

func medians(of []usage) usage {
	var seconds, cpu, megabytes []float64
	for _, u := range of {
		seconds, cpu, megabytes = append(seconds, u.seconds), append(cpu, u.cpu), append(megabytes, u.megabytes)
	}
	return usage{seconds: median(seconds), cpu: median(cpu), megabytes: median(megabytes)}
}

// sides returns both sides, and the directories of their repositories. end removes all files.
func (m *moverSite) sides(
	ctx context.Context, built *velero.Programs, name string, w volumeWorks,
) (sides [2]volumeSide, places [2]string, end func() error, err error) {
	hangUp := func() error { return nil }
	source, target, err := m.pair(ctx, name)
	if err != nil {
		return sides, places, nil, err
	}
	if err := growTree(m.volume(source), w.tree, 0); err != nil {
		return sides, places, nil, err
	}
	ours := &agentSide{moverSite: m, name: name, source: source, target: target}
	theirs := &librarySide{program: built.Uploader, dir: filepath.Join(m.dir, "velero-"+name), volume: m.volume(source)}
	if w.remote {
		proxy, err := newSlowProxy(m.S3.Endpoint, far)
		if err != nil {
			return sides, places, nil, err
		}
		for i, bucket := range []string{name + "-cleat", name + "-velero"} {
			places[i] = filepath.Join(m.S3.Dir, bucket)
			if err := os.Mkdir(places[i], 0o755); err != nil {
				return sides, places, nil, err
			}
		}
		ours.s3 = proxy.url
		theirs.repository = fmt.Sprintf("http://%s@%s/%s/kopia/", url.UserPassword(m.S3.AccessKey, m.S3.SecretKey),
			strings.TrimPrefix(proxy.url, "http://"), filepath.Base(places[1]))
		hangUp = proxy.listener.Close
	} else {
		places = [2]string{filepath.Join(m.dir, name), filepath.Join(theirs.dir, "repository")}
		theirs.repository = places[1]
	}
	return [2]volumeSide{ours, theirs}, places, func() error {
		return errors.Join(hangUp(), os.RemoveAll(m.volume(source)), os.RemoveAll(m.volume(target)), os.RemoveAll(theirs.dir),
			os.RemoveAll(places[0]), os.RemoveAll(places[1]))
	}, nil
}

// agentSide is cleat: the agent of a node with its mover.
type agentSide struct {
	*moverSite
	name           string // of the location
	s3             string // URL; empty for a directory
	source, target *corev1.Pod
	backups        int
	snapshot       string
}

func (a *agentSide) create(ctx context.Context) error {
	if a.s3 == "" {
		_, err := a.repository(ctx, a.name, a.target)
		return err
	}
	return a.repositoryIn(ctx, a.name, a.target, velerov1.BackupStorageLocationSpec{
		Provider:    "cleat.dev/s3",
		Config:      map[string]string{"region": a.S3.Region, "s3Url": a.s3, "s3ForcePathStyle": "true"},
		Credential:  &velerov1.SecretKeySelector{Name: "cloud-credentials", Key: "cloud"},
		StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: a.name + "-cleat"}},
	})
}

func (a *agentSide) backUp(ctx context.Context) (usage, error) {
	a.backups++
	return a.moved(func() (err error) {
		a.snapshot, err = a.moverSite.backUp(ctx, a.source, a.name, fmt.Sprint(a.backups))
		return err
	})
}

func (a *agentSide) restore(ctx context.Context) (usage, error) {
	return a.moved(func() error { return a.moverSite.restore(ctx, a.target, a.name, a.snapshot) })
}

// moved returns what a work uses, with the memory of the mover.
func (a *agentSide) moved(work func() error) (usage, error) {
	u, err := a.metered(work)
	u.megabytes = u.started
	return u, err
}

func (a *agentSide) forget() error {
	return errors.Join(os.RemoveAll(a.state()), os.RemoveAll(a.volume(a.target)), os.Mkdir(a.volume(a.target), 0o750))
}

// librarySide is Velero's library. Each call is a process of its own, as the pods of Velero are.
type librarySide struct {
	program, dir, repository, volume string
	snapshot                         string
}

func (l *librarySide) state() string  { return filepath.Join(l.dir, "state") }
func (l *librarySide) target() string { return filepath.Join(l.dir, "target") }

func (l *librarySide) create(ctx context.Context) error {
	if err := l.forget(); err != nil {
		return err
	}
	_, _, err := l.run(ctx, "create")
	return err
}

func (l *librarySide) backUp(ctx context.Context) (u usage, err error) {
	l.snapshot, u, err = l.run(ctx, "backup", l.volume)
	return u, err
}

func (l *librarySide) restore(ctx context.Context) (usage, error) {
	_, u, err := l.run(ctx, "restore", l.target(), l.snapshot)
	return u, err
}

func (l *librarySide) forget() error {
	var errs []error
	for _, dir := range []string{l.state(), l.target()} {
		errs = append(errs, os.RemoveAll(dir), os.MkdirAll(dir, 0o750))
	}
	return errors.Join(errs...)
}

// run runs the program, and returns its output and what it has used.
func (l *librarySide) run(ctx context.Context, action string, args ...string) (string, usage, error) {
	var out, problems strings.Builder
	cmd := exec.CommandContext(ctx, l.program, append([]string{action, l.repository, l.state()}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return "", usage{}, err
	}
	meter, err := startMeter(cmd.Process.Pid)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		text := problems.String()
		return "", usage{}, fmt.Errorf("%s: %w: %s", action, err, text[max(0, len(text)-500):])
	}
	u := meter.end()
	u.seconds = time.Since(began).Seconds()
	u.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return strings.TrimSpace(out.String()), u, nil
}

// sizeOf returns the size in MB of the files in a directory.
func sizeOf(dir string) (megabytes float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			megabytes += float64(info.Size()) / 1e6
		}
		return err
	})
	return megabytes, err
}
