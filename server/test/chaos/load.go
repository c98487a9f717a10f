package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

// inFlight is the number of backups, and of restores, that the load keeps in progress.
const inFlight = 12

// load creates backups, restores them and deletes them, faster than they end.
type load struct {
	site   *site
	random *rand.Rand

	backups, restores, deletions int
	unfinished                   [2]int          // backups and restores, as last seen
	restored                     map[string]bool // backups that have a restore, or a deletion
	deleted                      []string        // backups whose deletion was requested
}

func newLoad(s *site, random *rand.Rand) *load {
	return &load{site: s, random: random, restored: map[string]bool{}}
}

// run creates objects until ctx ends. Its requests bypass all faults, so any error is an error of the test.
func (l *load) run(ctx context.Context) {
	for pause(ctx, 300*time.Millisecond) {
		if err := l.step(ctx); err != nil && ctx.Err() == nil {
			fmt.Println("load:", err)
		}
	}
}

func (l *load) step(ctx context.Context) error {
	var backups velerov1.BackupList
	if err := l.site.client.List(ctx, &backups, client.InNamespace(roundtrip.Namespace)); err != nil {
		return err
	}
	var restores velerov1.RestoreList
	if err := l.site.client.List(ctx, &restores, client.InNamespace(roundtrip.Namespace)); err != nil {
		return err
	}
	l.unfinished = [2]int{}
	var fresh []string // completed backups that have not been used
	for _, b := range backups.Items {
		switch {
		case !b.Status.Phase.Terminal():
			l.unfinished[0]++
		case b.Status.Phase == velerov1.BackupPhaseCompleted && !l.restored[b.Name]:
			fresh = append(fresh, b.Name)
		}
	}
	for _, r := range restores.Items {
		if !r.Status.Phase.Terminal() {
			l.unfinished[1]++
		}
	}
	if l.unfinished[0] < inFlight {
		if err := l.backUp(ctx); err != nil {
			return err
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	name := fresh[l.random.IntN(len(fresh))]
	switch dice := l.random.IntN(10); {
	case dice == 0 && l.unfinished[1] < inFlight:
		return l.restore(ctx, name)
	case dice == 1:
		return l.remove(ctx, name)
	}
	return nil
}

// backUp creates a backup of one to three namespaces.
func (l *load) backUp(ctx context.Context) error {
	l.backups++
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace,
		Name: fmt.Sprintf("b%04d", l.backups)}}
	first := l.random.IntN(namespaces)
	for n := range 1 + l.random.IntN(3) {
		b.Spec.IncludedNamespaces = append(b.Spec.IncludedNamespaces, space((first+n)%namespaces))
	}
	return l.site.client.Create(ctx, b)
}

// restore restores a backup into namespaces of its own.
func (l *load) restore(ctx context.Context, backup string) error {
	l.restores++
	l.restored[backup] = true
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: "r-" + backup}}
	r.Spec.BackupName = backup
	r.Spec.NamespaceMapping = map[string]string{}
	for n := range namespaces {
		r.Spec.NamespaceMapping[space(n)] = backup + "-" + space(n)
	}
	return l.site.client.Create(ctx, r)
}

func (l *load) remove(ctx context.Context, backup string) error {
	l.deletions++
	l.restored[backup] = true
	l.deleted = append(l.deleted, backup)
	return l.site.client.Create(ctx, deletionOf(backup))
}

// removeAgain requests the deletion of a backup again if the request has failed. A server refuses a deletion if the
// location is not available, and keeps the backup if a plugin was killed in a call for one of its items.
func (l *load) removeAgain(ctx context.Context, backup string) error {
	request := deletionOf(backup)
	err := l.site.client.Get(ctx, client.ObjectKeyFromObject(request), request)
	if err == nil && request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed {
		err = l.site.client.Delete(ctx, request)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreAlreadyExists(l.site.client.Create(ctx, deletionOf(backup)))
}

func deletionOf(backup string) *velerov1.DeleteBackupRequest {
	return &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: "d-" + backup},
		Spec:       velerov1.DeleteBackupRequestSpec{BackupName: backup},
	}
}

// state describes the load in a few words.
func (l *load) state() string {
	return fmt.Sprintf("%d backups and %d restores are unfinished", l.unfinished[0], l.unfinished[1])
}
