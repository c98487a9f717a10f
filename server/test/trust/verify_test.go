package trust_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/test/site"
)

// newKey makes a key with the command, and returns its path.
func newKey(s *site.Site) string {
	s.T.Helper()
	path := filepath.Join(s.T.TempDir(), "signing.pem")
	require.Contains(s.T, s.Must("key", "create", "--out", path), "Key sha256:")
	return path
}

// verified verifies backups with the command, and returns its results.
func verified(s *site.Site, args ...string) map[string]status.VerificationReport {
	s.T.Helper()
	out, errs, err := s.Run(append([]string{"backup", "verify", "-o", "json"}, args...)...)
	var reports []status.VerificationReport
	require.NoError(s.T, json.Unmarshal([]byte(out), &reports), "%s %s", out, errs)
	all, damaged := map[string]status.VerificationReport{}, false
	for _, r := range reports {
		all[r.Backup] = r
		damaged = damaged || r.Outcome != velerov1.VerifiedIntact
	}
	require.Equal(s.T, damaged, err != nil, "the exit code says whether all are intact: %v", err)
	return all
}

// keep restores the directory of the backups after a fault.
func keep(s *site.Site) (restore func()) {
	s.T.Helper()
	dir, saved := filepath.Join(s.BucketDir, "backups"), filepath.Join(s.T.TempDir(), "saved")
	require.NoError(s.T, os.CopyFS(saved, os.DirFS(dir)))
	return func() {
		entries, err := os.ReadDir(dir)
		require.NoError(s.T, err)
		for _, entry := range entries {
			files, err := os.ReadDir(filepath.Join(dir, entry.Name()))
			require.NoError(s.T, err)
			for _, file := range files {
				if _, err := os.Stat(filepath.Join(saved, entry.Name(), file.Name())); err != nil {
					require.NoError(s.T, os.RemoveAll(filepath.Join(dir, entry.Name(), file.Name())))
				}
			}
		}
		require.NoError(s.T, filepath.WalkDir(saved, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s.Overwrite(filepath.Join(dir, strings.TrimPrefix(path, saved)), content)
			return nil
		}))
	}
}

// TestAcceptTrust_Verify tampers with each file of a backup in a real bucket, in each way, and with its checksums. Each
// fault is found and named, and what is not changed is intact.
func TestAcceptTrust_Verify(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Shop = s.Workload(5)
	key := newKey(s)
	config := site.ConfigFile(t, "backups: {signing: {key: {file: "+key+"}}}\n")
	server := s.Serve("--config", config)
	s.Available()
	for _, name := range []string{"whole", "other"} {
		// The archives of the same objects would be the same if they are made within a second.
		s.Put(`{apiVersion: v1, kind: ConfigMap, metadata: {name: of-` + name + `, namespace: ` + s.Shop + `}}`)
		s.BeginBackup(name)
		s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
	}
	s.VeleroMade("made-by-velero", map[string]string{"-logs.gz": "a log"}, false)
	for name, r := range verified(s, "--all") {
		require.Equal(t, velerov1.VerifiedIntact, r.Outcome, "%s: %v", name, r.Findings)
		if name == "made-by-velero" {
			require.Equal(t, velerov1.SignatureMissing, r.Signature)
			require.Contains(t, strings.Join(r.Notes, " "), "unsigned and has no checksums, like those of Velero")
			continue
		}
		require.Equal(t, velerov1.SignatureValid, r.Signature)
		require.Positive(t, r.Bytes)
	}
	require.Contains(t, s.Must("backup", "get"), "Intact")
	require.Contains(t, s.Must("backup", "describe", "whole"), "Signed by sha256:")

	// This one has not stored the files, so it does not wait for those that are missing.
	require.NoError(t, server.Stop())
	s.Serve("--config", config)
	restore := keep(s)
	dir := filepath.Join(s.BucketDir, "backups", "whole")
	files := s.Files("backups/whole")
	require.Len(t, files, 13)
	find := func(what string, kind velerov1.FindingKind, of string, args ...string) {
		t.Helper()
		r := verified(s, append([]string{"whole"}, args...)...)["whole"]
		require.Equal(t, velerov1.VerifiedDamaged, r.Outcome, what)
		for _, f := range r.Findings {
			if f.Kind == kind && strings.Contains(f.Of, of) {
				return
			}
		}
		require.Fail(t, "the fault is not named", "%s of %s: %v", what, of, r.Findings)
	}
	for _, file := range files {
		path := filepath.Join(dir, file)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		changed := velerov1.FindingChanged
		if strings.HasSuffix(file, "checksums.sig") {
			changed = velerov1.FindingSignature
		}
		flipped := append([]byte(nil), content...)
		flipped[len(flipped)/2] ^= 1
		require.NoError(t, os.WriteFile(path, flipped, 0o600)) // as a disk does: the S3 server has a checksum
		if strings.Contains(file, "checksums") {               // which part was flipped decides how it is named
			r := verified(s, "whole")["whole"]
			require.Equal(t, velerov1.VerifiedDamaged, r.Outcome, "%s flipped", file)
			require.Contains(t, r.Findings[0].Of, "checksums")
		} else {
			find("flipped", changed, file)
		}
		s.Overwrite(path, content[:len(content)/2])
		if strings.Contains(file, "checksums") {
			require.Equal(t, velerov1.VerifiedDamaged, verified(s, "whole")["whole"].Outcome, "%s cut", file)
		} else {
			find("cut", changed, file)
			find("cut, quick", changed, file, "--quick")
		}
		other := filepath.Join(s.BucketDir, "backups", "other", strings.Replace(file, "whole", "other", 1))
		swapped, err := os.ReadFile(other)
		require.NoError(t, err)
		s.Overwrite(path, swapped)
		switch {
		case string(swapped) == string(content):
		case strings.Contains(file, "checksums"):
			require.Equal(t, velerov1.VerifiedDamaged, verified(s, "whole")["whole"].Outcome, "%s swapped", file)
		default:
			find("swapped", velerov1.FindingSwapped, file)
		}
		require.NoError(t, os.Remove(path))
		find("removed", velerov1.FindingMissing, file)
		find("removed, quick", velerov1.FindingMissing, file, "--quick")
		restore()
	}
	s.Overwrite(filepath.Join(dir, "whole-extra.json.gz"), []byte("x"))
	find("added", velerov1.FindingAdded, "whole-extra.json.gz")
	find("added", velerov1.FindingAdded, "whole-extra.json.gz", "--quick")
	restore()

	// An item of an archive that is whole is changed, and one is added.
	changes, err := archive.NewChanges(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"of-whole", "more"} {
		item := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"x":"y"}}`,
			name, s.Shop)
		configMaps := schema.GroupResource{Resource: "configmaps"}
		require.NoError(t, changes.Item(configMaps, "v1", true, s.Shop, name, []byte(item)))
	}
	var rewritten bytes.Buffer
	packed := bytes.NewReader(s.File("whole", "whole.tar.gz"))
	_, err = archive.Rewrite(t.Context(), packed, &rewritten, changes, time.Now())
	require.NoError(t, errors.Join(err, changes.Close()))
	s.Overwrite(filepath.Join(dir, "whole.tar.gz"), rewritten.Bytes())
	find("an item is changed", velerov1.FindingChanged, "item configmaps "+s.Shop+"/of-whole")
	find("an item is added", velerov1.FindingAdded, "item configmaps "+s.Shop+"/more")
	require.Len(t, verified(s, "whole")["whole"].Findings, 3, "the archive and both items")
	restore()

	// A report that the server itself stores later is none.
	s.Overwrite(filepath.Join(dir, "whole-rehearsal-1.json"), []byte("x"))
	require.Equal(t, velerov1.VerifiedIntact, verified(s, "whole")["whole"].Outcome)
	restore()

	// A quick verification does not hide what it does not look for, and who restores the backup is told.
	log := filepath.Join(dir, "whole-logs.gz")
	flipped := s.File("whole", "whole-logs.gz")
	flipped[len(flipped)/2] ^= 1
	require.NoError(t, os.WriteFile(log, flipped, 0o600))
	find("flipped", velerov1.FindingChanged, "whole-logs.gz")
	quick := verified(s, "whole", "--quick")["whole"]
	require.Equal(t, velerov1.VerifiedIntact, quick.Outcome)
	require.Contains(t, strings.Join(quick.Notes, "\n"), "the backup is damaged: the verification at depth files of ")
	require.Regexp(t, `(?m)^whole +Completed .* Damaged, `, s.Must("backup", "get", "whole"))
	require.Contains(t, s.Must("backup", "describe", "whole"), "since then: Intact at depth quick")
	s.BeginRestore("back")
	s.AwaitRestore("back", velerov1.RestorePhaseCompleted)
	require.Contains(t, s.Must("restore", "describe", "back"), "backup whole is damaged: its verification of ")
	restore()

	// All files of another signed backup under this name: of this cluster, and where the cluster knows nothing.
	for _, file := range files {
		of := strings.Replace(file, "whole", "other", 1)
		content, err := os.ReadFile(filepath.Join(s.BucketDir, "backups", "other", of))
		require.NoError(t, err)
		s.Overwrite(filepath.Join(dir, file), content)
	}
	find("another backup under this name", velerov1.FindingSwapped, "backup whole", "--quick")
	restore()
	require.Equal(t, velerov1.VerifiedIntact, verified(s, "whole")["whole"].Outcome, "nothing is left of the faults")
	require.Regexp(t, `(?m)^whole +Completed .* Intact, `, s.Must("backup", "get", "whole"))
	require.Equal(t, velerov1.VerifiedIntact, verified(s, "other")["other"].Outcome)
}
