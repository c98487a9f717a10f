package status

import (
	"fmt"
	"slices"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Verified returns what is known of the verifications of a backup in a few words, "" for nothing.
func Verified(b *velerov1.Backup, now time.Time) string {
	known, err := velerov1.VerificationOf(b)
	switch {
	case err != nil:
		return "<invalid>"
	case known == nil:
		return ""
	case known.Running != nil:
		return "Verifying" + percent(known.Running)
	case known.Last == nil:
		return ""
	}
	standing := known.Standing()
	return string(standing.Outcome) + ", " + layout.Ago(standing.Ended, now)
}

func percent(r *velerov1.VerificationRun) string {
	if r.TotalBytes <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%d%%)", min(100, r.DoneBytes*100/r.TotalBytes))
}

// addVerified adds a column to the table of backups if one of them was verified.
func addVerified(t *layout.Table, backups []velerov1.Backup, now time.Time) {
	known := func(b velerov1.Backup) bool { return Verified(&b, now) != "" }
	if !slices.ContainsFunc(backups, known) {
		return
	}
	t.Head = append(t.Head, "VERIFIED")
	for i := range backups {
		t.Rows[i] = append(t.Rows[i], layout.OrNone(Verified(&backups[i], now)))
	}
}

// Signature returns what is known of the signature of a backup, for people.
func Signature(r *velerov1.VerificationResult) string {
	switch r.Signature {
	case velerov1.SignatureValid:
		return "Signed by " + r.Key
	case velerov1.SignatureUnknownKey:
		return "Signed by a key that is not accepted"
	case "":
		return "<not known>"
	default:
		return string(r.Signature)
	}
}

// printVerification writes what is known of the verifications of a backup.
func printVerification(d *layout.Description, b *velerov1.Backup) {
	known, err := velerov1.VerificationOf(b)
	if err != nil || known == nil {
		return // problems has the error
	}
	d.Gap()
	d.Section("Verification", func() {
		if r := known.Running; r != nil {
			d.Pairs([2]string{"Running", "since " + layout.FormatTime(&r.Started) + percent(r)})
			if r.At != "" {
				d.Pairs([2]string{"Looks at", layout.OneLine(r.At)})
			}
		}
		standing := known.Standing()
		if standing == nil {
			return
		}
		d.Pairs([2]string{"Result", string(standing.Outcome)}, [2]string{"Verified", layout.FormatTime(&standing.Ended)},
			[2]string{"Depth", string(standing.Depth)}, [2]string{"Signature", Signature(standing)})
		if standing.Message != "" {
			d.Pairs([2]string{"Failure reason", layout.OneLine(standing.Message)})
		}
		for _, f := range standing.Findings {
			d.Line("%s: %s: %s", f.Kind, layout.OneLine(f.Of), layout.OneLine(f.Message))
		}
		if standing.Others > 0 {
			d.Line("and %s", layout.Count(standing.Others, "more finding"))
		}
		for _, note := range standing.Notes {
			d.Line("note: %s", layout.OneLine(note))
		}
		switch {
		case known.Before == nil:
		case standing == known.Before:
			d.Line("since then: %s", alsoVerified(known.Last))
		default:
			d.Line("before that: %s", alsoVerified(known.Before))
		}
	})
}

// alsoVerified returns a verification in a line.
func alsoVerified(r *velerov1.VerificationResult) string {
	return fmt.Sprintf("%s at depth %s, %s", r.Outcome, r.Depth, layout.FormatTime(&r.Ended))
}

// VerificationReport is the last verification of a backup.
type VerificationReport struct {
	Backup string `json:"backup"`
	velerov1.VerificationResult
}

// VerificationTable returns the table of "backup verify".
func VerificationTable(reports []VerificationReport) layout.Table {
	t := layout.Table{Head: []string{"NAME", "RESULT", "SIGNATURE", "FILES", "SIZE", "FINDINGS"}}
	for _, r := range reports {
		t.Rows = append(t.Rows, []string{r.Backup, string(r.Outcome), layout.OrNone(string(r.Signature)),
			fmt.Sprint(r.Files), layout.Bytes(r.Bytes), fmt.Sprint(len(r.Findings) + r.Others)})
	}
	return t
}
