// Package end has the rules of what processes hold and leave behind, and how they exit. Start reading at work.go, which
// has the calls that are repeated in the search for leaks.
package end

import (
	"fmt"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
)

// Rules returns the rules that are checked after all others, one at a time.
func Rules() []suite.Rule {
	whole := []string{suite.Process}
	holding := []string{suite.Process, osv1.Kind().Wire, vsv1.Kind().Wire}
	return []suite.Rule{
		{
			ID: "leak-memory", Kinds: holding, Check: with(checkMemory), Alone: true,
			Text: "The memory of the process does not grow with every call.",
		},
		{
			ID: "leak-files", Kinds: holding, Check: with(checkFiles), Alone: true,
			Text: "The open files of the process do not grow with every call.",
		},
		{
			ID: "leak-children", Kinds: holding, Check: with(checkChildren), Alone: true,
			Text: "The processes that the process has started do not grow with every call.",
		},
		{
			ID: "leak-goroutines", Kinds: holding, Check: with(checkGoroutines), Alone: true,
			Text: "The goroutines of a Go program do not grow with every call. They are counted in what it writes to stderr " +
				"on SIGQUIT.",
		},
		{
			ID: "process-shutdown", Kinds: whole, Check: with(checkShutdown), Alone: true,
			Text: fmt.Sprintf("The process exits within %s of a call of go-plugin's shutdown service.", process.EndTime),
		},
		{
			ID: "process-sigterm", Kinds: whole, Check: with(checkSigterm), Alone: true,
			Text: fmt.Sprintf("The process exits within %s of a SIGTERM.", process.EndTime),
		},
		{
			ID: "process-children", Kinds: whole, Check: with(checkOrphans), Alone: true,
			Text: "Processes that the process has started end with it.",
		},
		{
			ID: "stdout-quiet", Kinds: whole, Should: true, Check: with(checkStdout), Alone: true,
			Text: "After the handshake the process writes nothing to stdout. Log lines belong on stderr.",
		},
		{
			ID: "stderr-json", Kinds: whole, Should: true, Check: with(checkStderr), Alone: true,
			Text: `Each line on stderr is a JSON object with "@message" and "@level", so that the host knows its level.`,
		},
	}
}
