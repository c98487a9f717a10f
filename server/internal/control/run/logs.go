package run

import (
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// LogOptions are the settings for the logs of runs.
type LogOptions struct {
	Dir  string // for temporary files; empty means the directory of the system
	JSON bool
}

// Open returns the log of a run of object, a "backup" or a "restore". Its lines are also written to the server's log.
func (o LogOptions) Open(
	what string, object client.Object, server hclog.Logger, now func() time.Time,
) (*runlog.Log, error) {
	return runlog.New(runlog.Options{Dir: o.Dir, JSON: o.JSON, Tee: server.ResetNamed(""), Now: now},
		what, client.ObjectKeyFromObject(object).String())
}

// maxNote is the maximum length in bytes of the text of an event. The API server accepts 1,024.
const maxNote = 1000

// Warn records a warning event for an object. A nil recorder records nothing.
func Warn(recorder events.EventRecorder, object client.Object, reason, action, text string) {
	if recorder != nil {
		recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, action, "%s", shorten.Text(text, maxNote))
	}
}

// ReportGaps records an event that names the fields of the spec without effect. It is one event, because the recorder
// would count similar ones as repetitions. A nil recorder records nothing.
func ReportGaps(recorder events.EventRecorder, object client.Object, action string, gaps []string) {
	if len(gaps) > 0 {
		Warn(recorder, object, "NotSupported", action, strings.Join(gaps, "; "))
	}
}

// Plugins opens the session of a run, with its view of the plugins.
type Plugins interface {
	Session(run string, log hclog.Logger) *pluginhost.Session
}
