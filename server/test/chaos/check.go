package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

// report holds the results at the end.
type report struct {
	work  string
	ended map[string]int // "backups Completed"
	exits int            // of servers, without a signal
	errs  []error
}

type end struct {
	name  string
	count int
}

func (r *report) ends() (all []end) {
	for _, name := range slices.Sorted(maps.Keys(r.ended)) {
		all = append(all, end{name, r.ended[name]})
	}
	return append(all, end{"exits of servers on their own", r.exits})
}

func (r *report) err() error { return errors.Join(r.errs...) }

func (r *report) breach(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// check waits until all objects of the load have ended, and compares custom resources, bucket and cluster.
func check(ctx context.Context, s *site, l *load) (*report, error) {
	r := &report{work: s.work, ended: map[string]int{}}
	var backups velerov1.BackupList
	var restores velerov1.RestoreList
	err := wait.PollUntilContextTimeout(ctx, time.Second, endTimeout, true, func(ctx context.Context) (bool, error) {
		if err := errors.Join(s.client.List(ctx, &backups, client.InNamespace(roundtrip.Namespace)),
			s.client.List(ctx, &restores, client.InNamespace(roundtrip.Namespace))); err != nil {
			return false, err
		}
		for _, b := range backups.Items {
			switch deleted := slices.Contains(l.deleted, b.Name); {
			case deleted && (b.Status.Phase.Terminal() || b.Status.Phase == velerov1.BackupPhaseDeleting):
				return false, l.removeAgain(ctx, b.Name)
			case deleted, !b.Status.Phase.Terminal():
				return false, nil
			}
		}
		for _, rs := range restores.Items {
			if !rs.Status.Phase.Terminal() {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil && !wait.Interrupted(err) {
		return nil, err
	}
	r.ended["backups deleted"] = len(l.deleted)
	for _, b := range backups.Items {
		if slices.Contains(l.deleted, b.Name) {
			r.breach("deleted backup %s is still there", b.Name)
			continue
		}
		r.ended["backups "+string(b.Status.Phase)]++
		if err := s.checkBackup(&b); err != nil {
			r.breach("backup %s, which is %s (%s): %w", b.Name, b.Status.Phase, b.Status.FailureReason, err)
		}
	}
	for _, rs := range restores.Items {
		r.ended["restores "+string(rs.Status.Phase)]++
		if err := s.checkRestore(ctx, &rs); err != nil {
			r.breach("restore %s, which is %s (%s): %w", rs.Name, rs.Status.Phase, rs.Status.FailureReason, err)
		}
	}
	r.checkStrangers(s, backups.Items)
	r.checkOperations(ctx, s)
	for _, v := range s.servers {
		r.exits += v.exits
	}
	return r, nil
}

// checkBackup checks that a backup has ended well and that its files in the bucket are complete. A killed plugin costs
// its items, so a backup may be PartiallyFailed.
func (s *site) checkBackup(b *velerov1.Backup) error {
	if b.Status.Phase != velerov1.BackupPhaseCompleted && b.Status.Phase != velerov1.BackupPhasePartiallyFailed {
		return errors.New("has not ended well")
	}
	raw, err := os.ReadFile(filepath.Join(s.folder, b.Name, "velero-backup.json"))
	if err != nil {
		return err
	}
	var stored velerov1.Backup
	if err := json.Unmarshal(raw, &stored); err != nil {
		return fmt.Errorf("velero-backup.json: %w", err)
	}
	if stored.UID != b.UID || stored.Status.Phase != b.Status.Phase {
		return fmt.Errorf("velero-backup.json has uid %s and phase %s, want %s and %s", stored.UID, stored.Status.Phase,
			b.UID, b.Status.Phase)
	}
	found, err := countConfigMaps(filepath.Join(s.folder, b.Name, b.Name+".tar.gz"))
	if err != nil {
		return err
	}
	want := configMaps * len(b.Spec.IncludedNamespaces)
	if found > want || found < want && b.Status.Phase == velerov1.BackupPhaseCompleted {
		return fmt.Errorf("the archive has %d config maps, want %d", found, want)
	}
	return nil
}

// countConfigMaps reads an archive to its end.
func countConfigMaps(path string) (found int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		if strings.HasPrefix(header.Name, "resources/configmaps/namespaces/") && strings.Contains(header.Name, "/settings-") {
			found++
		}
	}
}

// checkRestore checks that a restore has ended well and that the config maps of its backup exist. A restore that was
// created while the location was not available fails validation, as with Velero.
func (s *site) checkRestore(ctx context.Context, r *velerov1.Restore) error {
	if r.Status.Phase == velerov1.RestorePhaseFailedValidation &&
		strings.Contains(strings.Join(r.Status.ValidationErrors, " "), "is in Unavailable status") {
		return nil
	}
	if r.Status.Phase != velerov1.RestorePhaseCompleted && r.Status.Phase != velerov1.RestorePhasePartiallyFailed {
		return errors.New("has not ended well")
	}
	var b velerov1.Backup
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: roundtrip.Namespace, Name: r.Spec.BackupName},
		&b); err != nil {
		return err
	}
	for _, name := range b.Spec.IncludedNamespaces {
		var maps corev1.ConfigMapList
		if err := s.client.List(ctx, &maps, client.InNamespace(r.Spec.NamespaceMapping[name]),
			client.MatchingLabels{"app": "shop"}); err != nil {
			return err
		}
		if n := len(maps.Items); n > configMaps || n < configMaps && r.Status.Phase == velerov1.RestorePhaseCompleted {
			return fmt.Errorf("namespace %s has %d config maps, want %d", r.Spec.NamespaceMapping[name], n, configMaps)
		}
	}
	return nil
}

// checkOperations reports operations that continue although no object waits for them, and operations that are still
// recorded as open.
func (r *report) checkOperations(ctx context.Context, s *site) {
	var journals corev1.ConfigMapList
	err := wait.PollUntilContextTimeout(ctx, time.Second, endTimeout, true, func(ctx context.Context) (bool, error) {
		err := s.client.List(ctx, &journals, client.InNamespace(roundtrip.Namespace), client.HasLabels{operation.KindLabel})
		return len(journals.Items) == 0, err
	})
	if err != nil {
		r.breach("%d journals of operations are left: %w", len(journals.Items), err)
	}
	begun, err := os.ReadDir(filepath.Join(operationsDir(s.work), "operations"))
	if err != nil {
		r.breach("list the operations: %w", err)
	}
	for _, o := range begun {
		_, ended := os.Stat(filepath.Join(operationsDir(s.work), "ended", o.Name()))
		_, cancelled := os.Stat(filepath.Join(operationsDir(s.work), "cancelled", o.Name()))
		switch {
		case ended == nil:
			r.ended["operations ended"]++
		case cancelled == nil:
			r.ended["operations cancelled"]++
		default:
			r.breach("nobody has seen the end of operation %s, or cancelled it", o.Name())
		}
	}
}

// checkStrangers reports folders of backups that are not in the cluster. An S3 server that was killed may leave an
// empty folder, which is not an object.
func (r *report) checkStrangers(s *site, backups []velerov1.Backup) {
	folders, err := os.ReadDir(s.folder)
	if err != nil {
		r.breach("list the bucket: %w", err)
	}
	for _, folder := range folders {
		if slices.ContainsFunc(backups, func(b velerov1.Backup) bool { return b.Name == folder.Name() }) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(s.folder, folder.Name()))
		if err != nil || len(files) > 0 {
			r.breach("the bucket has %d files of backup %s, which the cluster has not: %v", len(files), folder.Name(), err)
		}
	}
}
