package trust

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
)

// TestReportsAreProved reads reports that somebody may have changed. None of them says Passed that nothing proves.
func TestReportsAreProved(t *testing.T) {
	t.Parallel()
	own, other := newSigner(t), newSigner(t)
	began := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	made := func(change func(*rehearsal.Report)) []byte {
		report := &rehearsal.Report{Version: 1, Backup: "b", BackupStarted: began, Summary: rehearsal.Summary{ID: "1",
			Result: rehearsal.Failed, Ended: began.Add(time.Hour), Text: "1 items could not be restored"}}
		if change != nil {
			change(report)
		}
		content, err := json.Marshal(report)
		require.NoError(t, err)
		return content
	}
	passed := func(r *rehearsal.Report) { r.Result, r.Proof = rehearsal.Passed, "the server itself" }
	signed := func(by *Signer, content []byte) []byte {
		file, err := by.SignReport(t.Context(), content)
		require.NoError(t, err)
		return file
	}
	edited := func(file []byte, change func(*envelope)) []byte {
		var e envelope
		require.NoError(t, json.Unmarshal(file, &e))
		change(&e)
		file, err := json.Marshal(e)
		require.NoError(t, err)
		return file
	}
	stored := signed(own, made(nil))
	asChecksums, err := own.signatures(t.Context(), checksumsType, made(passed))
	require.NoError(t, err)
	ring := Ring{{PublicKey: own.Public, Own: true}}
	tests := map[string]struct {
		file   []byte
		digest string
		ring   Ring
		keys   error
		result rehearsal.Result // by default NotProved
		want   string           // of the proof or the text
		err    string
	}{
		"the digest of a signed one": {file: stored, digest: rehearsal.Digest(stored), result: rehearsal.Failed, want: "digest"},
		"the digest of an unsigned one": {file: made(passed), digest: rehearsal.Digest(made(passed)), result: rehearsal.Passed,
			want: "digest"},
		"another digest":              {file: signed(own, made(passed)), digest: rehearsal.Digest(stored), err: "somebody has changed it"},
		"another digest, not signed":  {file: made(passed), digest: rehearsal.Digest(stored), err: "somebody has changed it"},
		"signed":                      {file: stored, ring: ring, result: rehearsal.Failed, want: own.Public.ID},
		"not signed":                  {file: made(passed), ring: ring, want: `it is not signed, and the cluster has not noted`},
		"signed by another key":       {file: signed(other, made(passed)), ring: ring, want: "not among the accepted keys"},
		"no keys":                     {file: signed(own, made(passed)), want: "not among the accepted keys"},
		"keys that are not known":     {file: signed(own, made(passed)), keys: errors.New("no answer"), want: "no answer"},
		"another content":             {file: edited(stored, func(e *envelope) { e.Payload = made(passed) }), ring: ring, want: "it is not the one that key"},
		"a signature of checksums":    {file: edited(stored, func(e *envelope) { e.Signatures, e.Payload = asChecksums, made(passed) }), err: "payloadType is"},
		"checksums' as a report's":    {file: edited(stored, func(e *envelope) { e.Signatures.Signatures, e.Payload = asChecksums.Signatures, made(passed) }), ring: ring, want: "it is not the one that key"},
		"without signatures":          {file: edited(stored, func(e *envelope) { e.Signatures.Signatures = nil }), err: "signatures is empty"},
		"an expired key":              {file: stored, ring: Ring{{PublicKey: own.Public, NotAfter: began}}, want: "is accepted for backups until"},
		"of another rehearsal":        {file: signed(own, made(func(r *rehearsal.Report) { passed(r); r.ID = "2" })), ring: ring, want: "rehearsal 2 of backup b"},
		"of another backup":           {file: signed(own, made(func(r *rehearsal.Report) { passed(r); r.Backup = "c" })), ring: ring, want: "of backup c"},
		"of an older one of its name": {file: signed(own, made(func(r *rehearsal.Report) { passed(r); r.BackupStarted = began.Add(-time.Hour) })), ring: ring, want: "another backup of that name"},
		"none":                        {file: nil, err: "invalid JSON"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := ReportOf{Backup: "b", ID: "1", Started: &began, Digest: tt.digest}
			report, err := ReadReport(bytes.NewReader(tt.file), of, func() (Ring, error) { return tt.ring, tt.keys })
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			if tt.result != "" {
				require.Equal(t, tt.result, report.Result)
				require.Contains(t, report.Proof, tt.want)
				require.Empty(t, report.Claimed)
				return
			}
			require.Equal(t, rehearsal.NotProved, report.Result)
			require.Contains(t, report.Text, tt.want)
			require.Empty(t, report.Proof)
			require.NotContains(t, report.Text, "Passed")
		})
	}
}

// FuzzReadReport reads any file of a report. Nothing proves it.
func FuzzReadReport(f *testing.F) {
	f.Add([]byte(`{"version":1,"result":"Passed"}`))
	f.Add([]byte(`{"payloadType":"application/vnd.cleat.rehearsal+json","payload":"eyJ2ZXJzaW9uIjoxfQ==","signatures":[{"keyid":"k","sig":"eA=="}]}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		report, err := ReadReport(bytes.NewReader(file), ReportOf{}, func() (Ring, error) { return nil, nil })
		if err == nil {
			require.Equal(t, rehearsal.NotProved, report.Result)
		}
	})
}
