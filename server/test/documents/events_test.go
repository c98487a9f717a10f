package documents_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// event describes an event that the programs record.
type event struct {
	object, level string
	meaning       string
}

// loads are the custom resources of loads.
const loads = "PodVolumeBackup, PodVolumeRestore, DataUpload, DataDownload"

// eventsByReason describe the events by their reasons. The test finds the reasons in the code.
var eventsByReason = map[string]event{
	"AttemptLost": {
		loads, "Warning",
		"An attempt to move the data has ended before all data was moved, with the reason. Another one follows.",
	},
	"BackupDeleted": {"Backup", "Normal", "A deletion that a user requested has deleted the backup."},
	"Canceled":      {loads, "Normal", "The load was cancelled."},
	"Completed": {
		loads, "Normal",
		"The load has ended; the event has the number of bytes that were moved.",
	},
	"Created": {"Schedule", "Normal", "The schedule has created a backup."},
	"Damaged": {
		"Backup", "Warning",
		"The verification has found files, items or volumes that are missing, changed or added.",
	},
	"DeletionFailed": {"Backup", "Warning", "A deletion of the backup has failed, with the reason."},
	"NotSigned": {
		"Backup", "Warning", "The backup is stored without a signature, with the reason why its key cannot be used.",
	},
	"DeletionRefused": {
		"Backup", "Warning",
		"A deletion of the backup was refused, for example while a restore reads it.",
	},
	"DamagedFiles": {
		"Backup", "Warning",
		"The backup was deleted although files of it are damaged; the event says what could not be read, and what stays.",
	},
	"Failed":   {loads, "Warning", "The load has failed, with the reason."},
	"Held":     {"Backup", "Normal", "The files of the backup have a legal hold."},
	"Kept":     {"Backup", "Normal", "The bucket keeps the backup until a time, or as it is held; it is deleted afterwards."},
	"Released": {"Backup", "Normal", "The files of the backup have no legal hold any more."},
	"KeptForRestore": {
		"Backup", "Normal",
		"The backup has expired, and is kept until a restore that reads it has ended.",
	},
	"LocationUnavailable": {"Backup", "Warning", "The queued backup waits for its storage location."},
	"NotCreated": {
		"Schedule", "Warning",
		"A backup that was due could not be created, with the reason.",
	},
	"NotSupported": {
		"Backup, Restore", "Warning",
		"The spec has fields without effect, which the event names.",
	},
	"OperationStalled": {
		"Backup, Restore", "Warning",
		"An operation made no progress for too long, and is cancelled.",
	},
	"OperationTimedOut": {"Backup, Restore", "Warning", "An operation took too long, and is cancelled."},
	"OperationTrouble": {
		"Backup, Restore", "Warning",
		"The plugin of an operation cannot be asked for its progress.",
	},
	"OperationsNotStored": {
		"Backup, Restore", "Warning",
		"The progress of the operations could not be stored in the bucket.",
	},
	"OperationsUnknown": {
		"Backup, Restore", "Warning",
		"The operations that the backup or restore waits for cannot be read.",
	},
	"PolicyFailed": {"Backup", "Warning", "The queued backup waits because the admission policy fails."},
	"Queued": {
		"Backup", "Normal",
		"The backup waits in the queue; the event has its position and the reason.",
	},
	"Skipped": {
		"Schedule", "Warning",
		"A backup that was due was skipped, because another one of the schedule waits or runs.",
	},
	"SnapshotsKept": {
		"Backup", "Warning",
		"The backup was deleted, and snapshots that nothing proves to be its own stay.",
	},
	"TakenUp": {
		"Backup, Restore", "Warning",
		"The server has continued the run of a server that was stopped or killed.",
	},
	"Maintained":        {"BackupRepository", "Normal", "The repository is maintained, with what was freed."},
	"MaintenanceFailed": {"BackupRepository", "Warning", "The maintenance of the repository has failed, with the reason."},
	"NotMaintained":     {"BackupRepository", "Warning", "The repository is not maintained now, with the reason."},
	"Unwritable":        {"Backup", "Warning", "The API server refuses to write the backup, with the reason."},
}

// reasonArguments are the functions that record events, with the positions of their arguments that are reasons.
var reasonArguments = map[string]int{"Eventf": 3, "Warn": 2, "trouble": 1}

// eventReasons returns the reasons of all events in the code, with the files that record them.
func eventReasons(t *testing.T) map[string]string {
	t.Helper()
	all := sources(t, "server/internal", "server/app")
	constants := map[string]string{} // by "DIRECTORY.Name"
	for _, source := range all {
		for _, declaration := range source.file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				constant, ok := spec.(*ast.ValueSpec)
				if !ok || len(constant.Values) != len(constant.Names) {
					continue
				}
				for i, name := range constant.Names {
					if text, ok := stringOf(constant.Values[i]); ok {
						constants[path.Dir(source.path)+"."+name.Name] = text
					}
				}
			}
		}
	}
	reasons := map[string]string{}
	for _, source := range all {
		for _, declaration := range source.file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			for _, argument := range recordedReasons(source, function) {
				for _, reason := range resolve(argument, path.Dir(source.path), function, constants) {
					reasons[reason] = source.path
				}
			}
		}
	}
	return reasons
}

// recordedReasons returns the arguments of calls in a function that are reasons of events.
func recordedReasons(source sourceFile, function *ast.FuncDecl) (arguments []ast.Expr) {
	ast.Inspect(function.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch called := call.Fun.(type) {
		case *ast.SelectorExpr:
			name = called.Sel.Name
			if of, isIdent := called.X.(*ast.Ident); name == "Warn" && (!isIdent || of.Name != "run") {
				return true // a line of a log
			}
		case *ast.Ident:
			name = called.Name
			if name == "Warn" && path.Base(path.Dir(source.path)) != "run" {
				return true
			}
		}
		if i, ok := reasonArguments[name]; ok && i < len(call.Args) {
			arguments = append(arguments, call.Args[i])
		}
		return true
	})
	return arguments
}

// resolve returns the possible reasons in an argument.
func resolve(
	argument ast.Expr, directory string, function *ast.FuncDecl, constants map[string]string,
) (reasons []string) {
	switch e := argument.(type) {
	case *ast.BasicLit:
		if text, ok := stringOf(e); ok {
			return []string{text}
		}
	case *ast.Ident:
		if text, ok := constants[directory+"."+e.Name]; ok {
			return []string{text}
		}
		ast.Inspect(function.Body, func(n ast.Node) bool { // the values of the variable
			assignment, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for i, to := range assignment.Lhs {
				name, ok := to.(*ast.Ident)
				if ok && name.Name == e.Name && i < len(assignment.Rhs) && assignment.Rhs[i] != argument {
					reasons = append(reasons, resolve(assignment.Rhs[i], directory, function, constants)...)
				}
			}
			return true
		})
	case *ast.CallExpr: // string(l.phase()): the phases in which a load has ended
		return []string{"Completed", "Canceled", "Failed"}
	case *ast.SelectorExpr:
		if e.Sel.Name != "Reason" {
			return nil
		}
		for name, text := range constants { // of a notice of an operation, or of a backup that waits for its location
			isNotice := path.Dir(name) == "server/internal/engine" && strings.HasPrefix(text, "Operation")
			isAside := strings.HasSuffix(name, "backupqueue.reasonLocation")
			switch path.Base(directory) {
			case "operations":
				if isNotice {
					reasons = append(reasons, text)
				}
			case "backupqueue":
				if isAside {
					reasons = append(reasons, text)
				}
			}
		}
	}
	return reasons
}

// eventOfPage matches names of events in a page.
var eventOfPage = regexp.MustCompile("[Ee]vents? ((?:`[A-Z][A-Za-z]+`(?:, | and )?)+)")

// TestDocumentsEvents checks that the reference lists each event that the programs record, and that the pages name no
// others.
func TestDocumentsEvents(t *testing.T) {
	t.Parallel()
	recorded := eventReasons(t)
	require.Greater(t, len(recorded), 20)
	var problems []string
	for reason, file := range recorded {
		if _, ok := eventsByReason[reason]; !ok {
			problems = append(problems, fmt.Sprintf("%s records the event %s: describe it in eventsByReason", file, reason))
		}
	}
	page := &strings.Builder{}
	page.WriteString("# Events\n\n" +
		"The server and the node agents record these events of objects in the server's namespace. " +
		"`kubectl describe` shows\nthem.\n\n")
	page.WriteString(tableHead("reason", "object", "type", "meaning"))
	for _, reason := range slices.Sorted(maps.Keys(eventsByReason)) {
		if recorded[reason] == "" {
			problems = append(problems, fmt.Sprintf("nothing records the event %s: remove it from eventsByReason", reason))
		}
		e := eventsByReason[reason]
		page.WriteString(tableRow(code(reason), e.object, e.level, e.meaning))
	}
	checkReference(t, "events.md", page.String())
	for path, text := range pages(t) {
		for _, match := range eventOfPage.FindAllStringSubmatch(text, -1) {
			for i, name := range strings.Split(match[1], "`") {
				if _, ok := eventsByReason[name]; i%2 == 1 && !ok {
					problems = append(problems, fmt.Sprintf("%s: there is no event %s", path, name))
				}
			}
		}
	}
	report(t, problems)
}
