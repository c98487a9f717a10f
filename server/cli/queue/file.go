package queue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// maxBackupsFile is the size in bytes that no list of thousands of Backups exceeds.
const maxBackupsFile = 256 << 20

// readBackups reads Backups from a file, or from stdin if path is "-": YAML documents or JSON, Backups or lists of
// them, as kubectl prints them. It keeps their order. Backups without a creation time are created now, one after the
// other. Backups that are not in the queue any more are left out, even if they are invalid. Backups that a server would
// not read are left out too; problems has them, with file, line and the right form. An error means that the file has no
// Backup, or cannot be read to its end.
func readBackups(
	path string, stdin io.Reader, now time.Time,
) (backups []*velerov1.Backup, problems []error, err error) {
	name, from := path, stdin
	if path == "-" {
		name = "stdin"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("read the backups: %w", err)
		}
		defer file.Close()
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, maxBackupsFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the backups: %w", err)
	}
	if len(data) > maxBackupsFile {
		return nil, nil, fmt.Errorf("read the backups: %s is larger than %d bytes", name, maxBackupsFile)
	}
	return parseBackups(name, data, now)
}

// parseBackups parses data; see readBackups. Errors mention name as the file.
func parseBackups(name string, data []byte, now time.Time) (backups []*velerov1.Backup, problems []error, err error) {
	r := &backupsReader{file: name, now: now, lines: map[string]int{}}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.noYAML(err)
			return nil, nil, errors.Join(r.problems()...)
		}
		if len(document.Content) > 0 && document.Content[0].ShortTag() != "!!null" {
			r.object(document.Content[0])
		}
	}
	if len(r.backups)+r.ended > 0 {
		return r.backups, r.problems(), nil
	}
	if len(r.found) == 0 {
		r.problem(0, "", "contains no Backup; want YAML documents of kind Backup, or what \"kubectl get backups -o yaml\" "+
			"prints")
	}
	return nil, nil, errors.Join(r.problems()...)
}

// backupsReader collects the Backups of a file.
type backupsReader struct {
	file    string
	now     time.Time
	backups []*velerov1.Backup
	ended   int            // Backups that are not in the queue any more
	lines   map[string]int // by name
	found   []*config.Problem
}

func (r *backupsReader) problem(line int, key, format string, args ...any) {
	r.found = append(r.found, &config.Problem{File: r.file, Line: line, Key: key, Message: fmt.Sprintf(format, args...)})
}

// problems returns all problems in the order of the lines.
func (r *backupsReader) problems() []error {
	slices.SortStableFunc(r.found, func(a, b *config.Problem) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, 0, len(r.found))
	for _, problem := range r.found {
		errs = append(errs, problem)
	}
	return errs
}

func (r *backupsReader) noYAML(err error) {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if parts := lineOfYAML.FindStringSubmatch(err.Error()); parts != nil {
		line, _ = strconv.Atoi(parts[1])
		message = parts[2]
	}
	r.problem(line, "", "is not YAML: %s", message)
}

// object reads a Backup, or a list of objects.
func (r *backupsReader) object(node *yaml.Node) {
	if node.Kind != yaml.MappingNode {
		r.problem(node.Line, "", "is not an object; want one of kind Backup or List")
		return
	}
	kind := child(node, "kind")
	switch {
	case kind == nil:
		r.problem(node.Line, "kind", "is missing, want kind: Backup")
	case kind.Value == "Backup":
		r.backup(node)
	case strings.HasSuffix(kind.Value, "List"):
		items := child(node, "items")
		if items == nil || items.Kind != yaml.SequenceNode {
			r.problem(kind.Line, "items", "is not a list; want Backups below it")
			return
		}
		for _, item := range items.Content {
			r.object(item)
		}
	default:
		r.problem(kind.Line, "kind", "is %s, want Backup or List", layout.OneLine(kind.Value))
	}
}

func (r *backupsReader) backup(node *yaml.Node) {
	if hasLeftQueue(node) {
		r.ended++
		return
	}
	before := len(r.found)
	if version := child(node, "apiVersion"); version == nil || version.Value != velerov1.SchemeGroupVersion.String() {
		r.problem(line(node, "apiVersion"), "apiVersion", "want %s", velerov1.SchemeGroupVersion)
	}
	b := r.decode(node)
	if b == nil {
		return
	}
	r.check(node, b)
	if len(r.found) > before {
		return
	}
	if b.CreationTimestamp.IsZero() {
		b.CreationTimestamp = metav1.NewTime(r.now.Add(time.Duration(len(r.backups))))
	}
	b.UID = types.UID("backup-" + strconv.Itoa(len(r.backups))) // unique
	r.lines[b.Name] = node.Line
	r.backups = append(r.backups, b)
}

// hasLeftQueue reports whether a Backup neither waits nor runs, nor occupies namespaces any more.
func hasLeftQueue(node *yaml.Node) bool {
	status := child(node, "status")
	if status == nil {
		return false
	}
	phase := child(status, "phase")
	if phase == nil {
		return false
	}
	b := &velerov1.Backup{Status: velerov1.BackupStatus{Phase: velerov1.BackupPhase(phase.Value)}}
	return slices.Contains(backupPhases(), b.Status.Phase) && !queue.InLine(b) && !queue.Occupies(b)
}

// decode returns node as a Backup, and nil after a problem. Unknown fields are allowed in metadata and status, which
// servers write.
func (r *backupsReader) decode(node *yaml.Node) *velerov1.Backup {
	var value any
	if err := node.Decode(&value); err != nil {
		r.noYAML(err)
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		r.problem(node.Line, "", "cannot be written as JSON: %v", err)
		return nil
	}
	b := &velerov1.Backup{}
	strict, err := kjson.UnmarshalStrict(data, b)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		r.problem(line(node, mismatch.Field), mismatch.Field, "is %s, want %s", mismatch.Value,
			typeText(mismatch.Type.String()))
		return nil
	case err != nil:
		r.problem(node.Line, "", "is not a Backup: %v", err)
		return nil
	}
	for _, err := range strict {
		key, ok := strings.CutPrefix(err.Error(), `unknown field "`)
		key = strings.TrimSuffix(key, `"`)
		switch {
		case !ok:
			r.problem(node.Line, "", "%v", err)
		case strings.HasPrefix(key, "status."), strings.HasPrefix(key, "metadata."):
		default:
			r.problem(line(node, key), key, "is not a field of a Backup")
		}
	}
	return b
}

// check reports what a server would refuse in b.
func (r *backupsReader) check(node *yaml.Node, b *velerov1.Backup) {
	switch wrong := validation.IsDNS1123Subdomain(b.Name); {
	case b.Name == "":
		r.problem(line(node, "metadata.name"), "metadata.name", "is missing")
	case len(wrong) > 0:
		r.problem(line(node, "metadata.name"), "metadata.name", "%q: %s", layout.OneLine(b.Name), wrong[0])
	case r.lines[b.Name] > 0:
		r.problem(line(node, "metadata.name"), "metadata.name",
			"%s is also the name of the Backup in line %d; want each name once", b.Name, r.lines[b.Name])
	}
	if !slices.Contains(backupPhases(), b.Status.Phase) {
		r.problem(line(node, "status.phase"), "status.phase", "%q: want one of %s, or none",
			layout.OneLine(string(b.Status.Phase)), phaseNames())
	}
	if _, err := filter.NewNames(b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces); err != nil {
		r.problem(line(node, "spec.includedNamespaces"), "spec.includedNamespaces", "%v", err)
	}
}

var lineOfYAML = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// typeText returns the type of a field as users name it.
func typeText(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "map["), strings.Contains(goType, "."):
		return "a mapping"
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	case goType == "bool":
		return "true or false"
	default:
		return "text"
	}
}

func backupPhases() []velerov1.BackupPhase {
	return []velerov1.BackupPhase{
		"", velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart,
		velerov1.BackupPhaseFailedValidation,
		velerov1.BackupPhaseInProgress, velerov1.BackupPhaseWaitingForPluginOperations,
		velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed, velerov1.BackupPhaseFinalizing,
		velerov1.BackupPhaseFinalizingPartiallyFailed, velerov1.BackupPhaseCompleted, velerov1.BackupPhasePartiallyFailed,
		velerov1.BackupPhaseFailed, velerov1.BackupPhaseDeleting,
	}
}

func phaseNames() string {
	var names []string
	for _, phase := range backupPhases()[1:] {
		names = append(names, string(phase))
	}
	return strings.Join(names, ", ")
}

// child returns the value of a key in a mapping, and nil if there is none.
func child(node *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// line returns the line of the key at path, or of the nearest key around it.
func line(node *yaml.Node, path string) int {
	at := node.Line
	for key := range strings.SplitSeq(path, ".") {
		key, _, _ = strings.Cut(key, "[")
		if node.Kind != yaml.MappingNode {
			return at
		}
		found := false
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				at, node, found = node.Content[i].Line, node.Content[i+1], true
				break
			}
		}
		if !found {
			return at
		}
	}
	return at
}
