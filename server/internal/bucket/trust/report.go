package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/kube/foreign"
)

// envelope is the file of a signed report: DSSE's, as JSON. An unsigned report is stored as it is.
type envelope struct {
	Signatures

	Payload []byte `json:"payload"`
}

// SignReport returns the file of a signed report of a rehearsal.
func (s *Signer) SignReport(ctx context.Context, report []byte) ([]byte, error) {
	signed, err := s.signatures(ctx, reportType, report)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{signed, report})
}

// ReportOf identifies a report of a rehearsal that is read.
type ReportOf struct {
	Backup, ID string
	// Started is when the backup began; nil if that is not known. Another backup may have had its name.
	Started *time.Time
	// Digest is the digest of the report that the cluster has noted; empty for none.
	Digest string
}

// ErrReport is returned for what is not the report that was stored.
var ErrReport = errors.New("it is not the report that the server has stored")

// ReadReport reads the file of a report, which is not compressed any more. It returns ErrReport if the cluster has noted
// another digest. Without a digest, a key of the ring must have signed the report; the result of any other report, and
// of one of another rehearsal or backup, is NotProved.
func ReadReport(r io.Reader, of ReportOf, keys func() (Ring, error)) (*rehearsal.Report, error) {
	limits := rehearsal.Limits()
	limits.Bytes += limits.Bytes/2 + 1<<20 // a payload is in base64
	content, err := io.ReadAll(io.LimitReader(r, limits.Bytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the report of a rehearsal: %w", err)
	}
	if digest := rehearsal.Digest(content); of.Digest != "" && digest != of.Digest {
		return nil, fmt.Errorf("%w: its SHA-256 sum is %s, and the cluster has noted %s, so somebody has changed it in the "+
			"bucket", ErrReport, digest, of.Digest)
	}
	var file envelope
	if err := foreign.Unmarshal(content, &file, limits); err != nil {
		return nil, fmt.Errorf("read the report of a rehearsal: %w", err)
	}
	signed := file.PayloadType != ""
	if signed {
		if err := file.check(reportType); err != nil {
			return nil, fmt.Errorf("read the report of a rehearsal: %w", err)
		}
		content = file.Payload
	}
	report, err := rehearsal.Read(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	proof, problem := "the digest that the cluster has noted", error(nil)
	if of.Digest == "" {
		proof, problem = proveReport(report, of, &file, content, keys)
	}
	report.Proof, report.Claimed = proof, ""
	if problem != nil {
		report.Proof, report.Claimed, report.Result = "", report.Result, rehearsal.NotProved
		report.Text = fmt.Sprintf("nothing proves this report: %v; it claims %q: %s", problem,
			strings.ToLower(string(report.Claimed)), report.Text)
	}
	return report, nil
}

// proveReport returns by what a report is proved of which the cluster has no digest, or why it is not.
func proveReport(
	report *rehearsal.Report, of ReportOf, file *envelope, content []byte, keys func() (Ring, error),
) (string, error) {
	if file.PayloadType == "" {
		return "", errors.New("it is not signed, and the cluster has not noted its digest")
	}
	ring, err := keys()
	if err != nil {
		return "", fmt.Errorf("the cluster has not noted its digest, and the keys of the server are not known: %w", err)
	}
	judgment := ring.judge(&file.Signatures, "it is not the one", content, report.Ended)
	switch {
	case judgment.Problem != nil:
		return "", judgment.Problem
	case report.Backup != of.Backup || report.ID != of.ID:
		return "", fmt.Errorf("what is signed is rehearsal %s of backup %s", report.ID, report.Backup)
	case of.Started != nil && !report.BackupStarted.Equal(*of.Started):
		return "", fmt.Errorf("what is signed is the rehearsal of another backup of that name, which began %s",
			report.BackupStarted.Format(time.RFC3339))
	}
	return "the signature of key " + judgment.Key, nil
}
