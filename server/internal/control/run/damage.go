package run

import (
	"fmt"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// maxDamage is the longest text about a finding, in bytes.
const maxDamage = 300

// Damage returns what is known of the damage of a backup, for whoever restores it; "" for nothing.
func Damage(b *velerov1.Backup) string {
	known, err := velerov1.VerificationOf(b)
	if err != nil || known == nil {
		return ""
	}
	found := known.Standing()
	if found == nil || found.Outcome != velerov1.VerifiedDamaged || len(found.Findings) == 0 {
		return ""
	}
	first := found.Findings[0]
	return fmt.Sprintf("backup %s is damaged: its verification of %s has found %d problems, the first of %s: %s", b.Name,
		found.Ended.UTC().Format(time.RFC3339), len(found.Findings)+found.Others, shorten.Text(first.Of, maxDamage),
		shorten.Text(first.Message, maxDamage))
}
