package verify

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/versioning"
)

// tolerance is how far two clocks may differ without a note.
const tolerance = 5 * time.Minute

// Request is a backup to verify.
type Request struct {
	Objects *store.Store
	Backup  string
	Depth   velerov1.VerificationDepth
	Ring    trust.Ring
	// Noted is what the cluster knows of the files, which whoever can write to the bucket cannot change; nil for nothing.
	Noted store.Tally
	// Known returns what is known to have a SHA-256 sum: "file x.tar.gz of backup x", or ""; nil knows nothing.
	Known func(sum string) string
	// Volumes looks at the snapshots of volumes. The document is nil if the backup has none; nil looks at nothing.
	Volumes func(ctx context.Context, d *trust.Document, r *Report) error
	// Progress is called while files are read; may be nil.
	Progress func(done, total int64, at string)
	Now      time.Time
}

// Report is what was found.
type Report struct {
	Signature velerov1.SignatureState
	Key       string // of a valid signature
	Files     int    // that were read
	Bytes     int64
	Findings  []velerov1.VerificationFinding
	Others    int // findings beyond mostFindings
	Notes     []string
}

// mostFindings is how many findings a report names.
const mostFindings = 200

// Add adds a finding.
func (r *Report) Add(kind velerov1.FindingKind, of, format string, args ...any) {
	if len(r.Findings) == mostFindings {
		r.Others++
		return
	}
	message := fmt.Sprintf(format, args...)
	r.Findings = append(r.Findings, velerov1.VerificationFinding{Kind: kind, Of: of, Message: message})
}

// Note adds a note.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Run verifies a backup. An error means that it could not be looked at.
func Run(ctx context.Context, request Request) (*Report, error) {
	r := &run{Request: request, Report: &Report{}}
	names, err := r.Objects.FilesOf(ctx, r.Backup)
	if err != nil {
		return nil, err
	}
	r.names = map[string]bool{}
	for _, name := range names {
		r.names[name] = true
	}
	if err := r.readChecksums(ctx); err != nil {
		return nil, err
	}
	r.expect()
	r.compareNames()
	if r.Depth != velerov1.VerifyQuick {
		if err := r.readAll(ctx); err != nil {
			return nil, err
		}
	}
	if r.Depth == velerov1.VerifyQuick {
		if err := r.compareSizes(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.lookAtVolumes(ctx); err != nil {
		return nil, err
	}
	return r.Report, nil
}

// run is a verification.
type run struct {
	Request
	*Report

	names    map[string]bool // of the files that are there
	document *trust.Document // nil if there is none that can be used
	want     store.Tally
	read     map[string]bool // files that were read and are as they should be
	total    int64
}

func file(name string) string { return "file " + name }

func (r *run) fileName(suffix string) string { return r.Backup + "-" + suffix }
func (r *run) archive() string               { return r.Backup + ".tar.gz" }

// readChecksums reads the checksums and judges their signature.
func (r *run) readChecksums(ctx context.Context) error {
	checksums, signature := r.fileName(store.ChecksumsFile), r.fileName(store.SignatureFile)
	d, raw, sum, err := trust.Read(ctx, r.Objects, r.Backup)
	if _, noted := r.Noted[signature]; noted && !r.names[signature] {
		r.Add(velerov1.FindingMissing, file(signature), "the signature of the checksums was removed")
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.Signature = velerov1.SignatureMissing
		if _, noted := r.Noted[checksums]; noted {
			r.Add(velerov1.FindingMissing, file(checksums), "the checksums were removed")
		} else {
			r.Note("the backup is unsigned and has no checksums, like those of Velero")
		}
		if r.names[signature] {
			r.Signature = velerov1.SignatureInvalid
			r.Add(velerov1.FindingMissing, file(checksums), "there is a signature, and the checksums that it covers are missing")
		}
		return nil
	case errors.Is(err, store.ErrDamaged):
		r.Signature = velerov1.SignatureInvalid
		r.Add(velerov1.FindingChanged, file(checksums), "the checksums cannot be used: %v", err)
		return nil
	case err != nil:
		unreadable := checksums
		if raw != nil {
			unreadable = signature
		}
		r.Signature = velerov1.SignatureInvalid
		return r.unreadable(ctx, unreadable, err)
	}
	judgment := r.Ring.Judge(d, raw, sum)
	r.Signature, r.Key = judgment.State, judgment.Key
	switch judgment.State {
	case velerov1.SignatureInvalid:
		r.Add(velerov1.FindingSignature, file(signature), "the signature is not valid: %v", judgment.Problem)
	case velerov1.SignatureUnknownKey:
		if len(r.Ring) > 0 {
			r.Add(velerov1.FindingSignature, file(signature), "the signature is not accepted: %v", judgment.Problem)
		} else {
			r.Note("the signature was not looked at, because the server has no key: %v", judgment.Problem)
		}
	case velerov1.SignatureMissing:
		r.Note("the backup is unsigned, it has checksums only")
	}
	if d.Backup.Name != r.Backup {
		r.Add(velerov1.FindingSwapped, "backup "+r.Backup, "the files are those of backup %s of %s, under another name",
			d.Backup.Name, d.Signed.UTC().Format(time.RFC3339))
	}
	r.document = d
	r.noteClock(ctx)
	return nil
}

// noteClock notes times that cannot be right. A clock that is wrong is no damage.
func (r *run) noteClock(context.Context) {
	d := r.document
	if ahead := d.Signed.Sub(r.Now); ahead > tolerance {
		r.Note("the checksums were made %s in the future: the clock of this server or of the one that made the backup is "+
			"wrong", ahead.Round(time.Second))
	}
	if d.Backup.Completed != nil && d.Backup.Completed.Sub(d.Signed) > tolerance {
		r.Note("the checksums were made before the backup ended: the clock of its server was changed")
	}
	if d.Backup.Started != nil && d.Backup.Completed != nil && d.Backup.Started.Sub(*d.Backup.Completed) > tolerance {
		r.Note("the backup ended before it was started: the clock of its server was changed")
	}
}

// expect decides what the files should be. What the cluster has noted counts more than what is in the bucket.
func (r *run) expect() {
	r.want = store.Tally{}
	if r.document != nil {
		r.want = r.document.Sums()
	}
	final := false
	if own, ok := r.Noted[store.MetadataFile]; ok {
		final = true
		if r.document != nil && r.want[store.MetadataFile].SHA256 != own.SHA256 {
			r.Add(velerov1.FindingSwapped, file(r.fileName(store.ChecksumsFile)),
				"the checksums are of another state of the backup, of %s, than the server has stored; an older one, or one of "+
					"another server", r.document.Signed.UTC().Format(time.RFC3339))
			r.want = store.Tally{}
		}
	}
	if !final {
		return
	}
	for name, sum := range r.Noted {
		if name == store.MetadataFile || store.FileName(r.Backup, name) != "" && !r.isOfChecksums(name) {
			r.want[name] = sum
		}
	}
}

func (r *run) isOfChecksums(name string) bool {
	return name == r.fileName(store.ChecksumsFile) || name == r.fileName(store.SignatureFile)
}

// compareNames finds files that are missing and added.
func (r *run) compareNames() {
	for _, name := range slices.Sorted(maps.Keys(r.want)) {
		if !r.names[name] {
			r.Add(velerov1.FindingMissing, file(name), "the file is missing")
		}
		r.total += max(0, r.want[name].Size)
	}
	if len(r.want) == 0 {
		if !r.names[store.MetadataFile] {
			r.Add(velerov1.FindingMissing, file(store.MetadataFile), "the file is missing")
		}
		return
	}
	staged := 0
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		_, listed := r.want[name]
		if strings.HasPrefix(name, "staged/") {
			staged++
			continue
		}
		later := r.isOfChecksums(name) || strings.HasPrefix(name, r.fileName(store.RehearsalPrefix))
		if !listed && !later {
			r.Add(velerov1.FindingAdded, file(name), "the file is not among the checksums of the backup")
		}
	}
	if staged > 0 {
		r.Note("%d files of attempts that did not end are left in the directory staged", staged)
	}
}

// compareSizes compares velero-backup.json, which is small, and the sizes of the other files, as far as the object
// store tells them.
func (r *run) compareSizes(ctx context.Context) error {
	told := true
	for _, name := range slices.Sorted(maps.Keys(r.want)) {
		want := r.want[name]
		switch {
		case !r.names[name]:
		case name == store.MetadataFile:
			if err := r.readFile(ctx, name); err != nil {
				return err
			}
		case told && want.Size > 0:
			size, known, err := r.Objects.SizeOf(ctx, r.Backup, name)
			if told = known || err != nil; err != nil {
				err = r.unreadable(ctx, name, err)
			} else if known && size != want.Size {
				r.Add(velerov1.FindingChanged, file(name), "the file has %d bytes instead of %d", size, want.Size)
			}
			if err != nil {
				return err
			}
		}
	}
	r.Note("the content of the files was not read%s", map[bool]string{false: ", and their sizes are not known"}[told])
	return nil
}

// readAll reads all files, the archive last: what it should hold is in others.
func (r *run) readAll(ctx context.Context) error {
	r.read = map[string]bool{}
	archive := r.archive()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.names)), func(name string) bool {
		_, listed := r.want[name]
		return name == archive || !listed && len(r.want) > 0 || r.isOfChecksums(name) || strings.Contains(name, "/")
	})
	if r.names[archive] {
		names = append(names, archive)
	}
	for _, name := range names {
		if err := r.readFile(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads one file.
func (r *run) readFile(ctx context.Context, name string) error {
	if _, ok := r.want[name]; !ok {
		return r.readUnknown(ctx, name)
	}
	got, err := r.sumOf(ctx, name)
	if err != nil {
		return r.unreadable(ctx, name, err)
	}
	want := r.want[name]
	if got.SHA256 == want.SHA256 {
		if r.read != nil {
			r.read[name] = true
		}
		return nil
	}
	known := ""
	if r.Known != nil {
		known = r.Known(got.SHA256)
	}
	for other, sum := range r.want {
		if sum.SHA256 == got.SHA256 && other != name {
			known = file(other)
		}
	}
	switch {
	case known != "":
		r.Add(velerov1.FindingSwapped, file(name), "the file has the content of %s", known)
	case want.Size >= 0 && got.Size < want.Size:
		r.Add(velerov1.FindingChanged, file(name), "the file was cut: it has %d of %d bytes", got.Size, want.Size)
	case want.Size >= 0 && got.Size > want.Size:
		r.Add(velerov1.FindingChanged, file(name), "the file was changed: it has %d bytes instead of %d", got.Size, want.Size)
	default:
		r.Add(velerov1.FindingChanged, file(name), "the file was changed: its SHA-256 sum is %s instead of %s", got.SHA256,
			want.SHA256)
	}
	if name == r.archive() && known == "" {
		if r.read[r.fileName(store.ItemSumsFile)] {
			return r.compareSums(ctx)
		}
		return r.compareItems(ctx)
	}
	return nil
}

// rereads is how often a file is read again that the object store could not read, after pauses.
const rereads, reread = 2, 300 * time.Millisecond

// unreadable adds a finding if the object store lists a file and cannot read it, as one that notices itself that the
// content was changed. Otherwise the store has failed, and the error is returned.
func (r *run) unreadable(ctx context.Context, name string, failure error) error {
	if ctx.Err() != nil || errors.Is(failure, versioning.ErrUnavailable) {
		return failure
	}
	names, err := r.Objects.FilesOf(ctx, r.Backup)
	switch {
	case err != nil:
		return failure
	case !slices.Contains(names, name):
		r.Add(velerov1.FindingMissing, file(name), "the file is missing")
	default:
		r.Add(velerov1.FindingChanged, file(name), "the object store cannot read the file: %v", failure)
	}
	return nil
}

// sumOf reads a file.
func (r *run) sumOf(ctx context.Context, name string) (store.Sum, error) {
	buffer := make([]byte, 256<<10)
	for attempt := 0; ; attempt++ {
		sum, before := sha256.New(), r.Bytes
		size, err := r.stream(ctx, name, func(body io.Reader) (int64, error) {
			return io.CopyBuffer(sum, struct{ io.Reader }{body}, buffer)
		})
		if err == nil || attempt == rereads {
			return store.Sum{SHA256: hex.EncodeToString(sum.Sum(nil)), Size: size}, err
		}
		r.Bytes = before
		r.Files--
		select {
		case <-ctx.Done():
			return store.Sum{}, context.Cause(ctx)
		case <-time.After(reread):
		}
	}
}

// stream passes the content of a file to read.
func (r *run) stream(ctx context.Context, name string, read func(io.Reader) (int64, error)) (int64, error) {
	r.Files++
	body, err := r.Objects.OpenListed(ctx, r.Backup, name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }() // only read from
	counted := &counter{body: body, ctx: ctx, progress: func(n int64) {
		if r.Progress != nil {
			r.Progress(r.Bytes+n, r.total, file(name))
		}
	}}
	size, err := read(counted)
	r.Bytes += counted.n
	if counted.err != nil { // not what the content has caused
		return size, fmt.Errorf("read %s of backup %s: %w", name, r.Backup, counted.err)
	}
	return size, err
}

// counter counts what is read, and remembers the error of the object store.
type counter struct {
	body     io.Reader
	ctx      context.Context //nolint:containedctx // of the one call in which it is used
	n        int64
	err      error
	progress func(n int64)
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		c.err = context.Cause(c.ctx)
		return 0, c.err
	}
	n, err := c.body.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // as an io.Reader must
		c.err = err
	}
	c.progress(c.n)
	return n, err
}

// readUnknown reads a file whose sum is not known: it must be whole.
func (r *run) readUnknown(ctx context.Context, name string) error {
	if name == r.archive() {
		return r.compareItems(ctx)
	}
	var damage error
	_, err := r.stream(ctx, name, func(body io.Reader) (int64, error) {
		content := body
		if strings.HasSuffix(name, ".gz") {
			plain, err := gzip.NewReader(body)
			if damage = err; err != nil {
				return 0, nil
			}
			content = plain
		} else if name == store.MetadataFile {
			damage = decodable(body)
			return 0, nil
		}
		_, damage = io.Copy(io.Discard, content)
		return 0, nil
	})
	if err != nil {
		return r.unreadable(ctx, name, err)
	}
	if damage != nil {
		r.Add(velerov1.FindingChanged, file(name), "the file is damaged: %v", damage)
	}
	return nil
}

// decodable returns an error unless the content is a Backup.
func decodable(body io.Reader) error {
	const most = 3 << 20
	content, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil {
		return err
	}
	return store.DecodeMetadata(content, new(velerov1.Backup))
}

func (r *run) lookAtVolumes(ctx context.Context) error {
	deep := r.Depth == velerov1.VerifyVolumes || r.Depth == velerov1.VerifyData
	if deep && r.Volumes != nil {
		return r.Volumes(ctx, r.document, r.Report)
	}
	if r.document != nil && len(r.document.Volumes) > 0 {
		r.Note("the snapshots of %d volumes were not looked at", len(r.document.Volumes))
	}
	return nil
}
