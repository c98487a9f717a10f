package deletions

import (
	"fmt"
	"slices"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// proof says which files of a backup are certainly those of its server. Whoever can write to the bucket can write files
// that name snapshots of others, and even let the backup expire. So what a file names outside of the bucket is deleted
// only if the cluster has noted the digest of the file, or if a user decides so.
type proof struct {
	backup string
	files  []store.Tally // each file is as one of them says
	any    bool          // all files are taken as they are
	keep   bool          // the backup is deleted nevertheless, and what is not proven stays
	tags   map[string]string
}

// proofOf returns the proof of a backup. stored is the Backup in the bucket.
func proofOf(request *velerov1.DeleteBackupRequest, backup, stored *velerov1.Backup) proof {
	_, isOwn := backup.Annotations[velerov1.FilesAnnotation]
	choice := backup.Annotations[velerov1.DeleteSnapshotsAnnotation]
	p := proof{backup: backup.Name, files: store.Noted(backup), any: choice == "true"}
	p.keep = choice == "false" || request.Annotations[velerov1.ExpiredAnnotation] != ""
	if !isOwn && stored.UID != "" && stored.UID == backup.UID && choice == "" {
		p.any = true // Velero or a former version has made it in this cluster, and has noted no digests
	}
	uid := stored.UID
	if uid == "" {
		uid = backup.UID
	}
	// Where a backup is brought from, it had another UID, and the tags have that one.
	p.tags = map[string]string{"backup": backup.Name, "backup-uid": string(uid)}
	return p
}

// Holds implements volumes.Proof.
func (p proof) Holds(kind velerov1.DownloadTargetKind, digest string) bool {
	return p.any || digest != "" && slices.ContainsFunc(p.files, func(noted store.Tally) bool {
		return noted.Digest(kind, p.backup) == digest
	})
}

// Tags implements volumes.Proof.
func (p proof) Tags() map[string]string {
	if p.any {
		return nil
	}
	return p.tags
}

const (
	// maxHeld is how many of the things that stay a text names.
	maxHeld = 10
	// howToDecide follows after what stays.
	howToDecide = "nothing proves that they belong to it, because its files were brought or changed by somebody who can " +
		"write to the bucket"
)

// describeHeld lists what stays.
func describeHeld(held []string) string {
	held = slices.Compact(slices.Sorted(slices.Values(held)))
	text := strings.Join(held[:min(len(held), maxHeld)], ", ")
	if more := len(held) - maxHeld; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// undecided is the error of a request of a user, who has to decide what becomes of what the files name.
func undecided(b *velerov1.Backup, held []string) error {
	return refusal(fmt.Sprintf("the files of the backup name %s, and %s; \"cleat backup delete %s --delete-snapshots\" "+
		"deletes them with the backup, "+
		"--delete-snapshots=false deletes the backup without them (with other clients, set the annotation %s of the Backup "+
		"to \"true\" or \"false\" first)",
		describeHeld(held), howToDecide, b.Name, velerov1.DeleteSnapshotsAnnotation))
}
