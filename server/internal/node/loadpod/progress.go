package loadpod

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
)

const (
	// progressVolume is the volume of a pod with the progress of its attempt.
	progressVolume = "load-progress"
	progressFile   = "progress"
	progressPeriod = time.Second
	mostProgress   = 8 << 10 // bytes of the file
)

// ProgressDir is where the program finds the volume.
const ProgressDir = "/load-progress"

// progress is the content of the file.
type progress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
	// Waits is why no data is moved; empty while it is.
	Waits string `json:"waits,omitempty"`
}

// Reporter writes the progress of an attempt into the volume. It is safe for concurrent use.
type Reporter struct {
	done, total atomic.Int64
	waits       atomic.Pointer[string]
	stop        chan struct{}
}

// NewReporter starts to write the progress into a directory, until Stop is called.
func NewReporter(dir string) *Reporter {
	r := &Reporter{stop: make(chan struct{})}
	go func() {
		var written progress
		for {
			select {
			case <-r.stop:
				return
			case <-time.After(progressPeriod):
			}
			if now := r.now(); now != written && now.write(dir) == nil {
				written = now
			}
		}
	}()
	return r
}

// Report notes how many bytes are moved.
func (r *Reporter) Report(done, total int64) {
	r.done.Store(done)
	r.total.Store(total)
}

// Wait notes why no data is moved, "" if it is.
func (r *Reporter) Wait(why string) { r.waits.Store(&why) }

func (r *Reporter) now() progress {
	p := progress{Done: r.done.Load(), Total: r.total.Load()}
	if why := r.waits.Load(); why != nil {
		p.Waits = *why
	}
	return p
}

// Stop ends the writing.
func (r *Reporter) Stop() { close(r.stop) }

// write replaces the file, so that a reader never sees a part of it.
func (p progress) write(dir string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	fresh := filepath.Join(dir, progressFile+".new")
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(dir, progressFile))
}

// Progress returns how many bytes the program of a pod has moved, zero if that is not known, and why it moves none, which
// is empty while it does.
func (p *Pods) Progress(pod *corev1.Pod) (done, total int64, waits string) {
	volume, err := hostpath.Find(p.HostPods, string(pod.UID), progressVolume)
	if err != nil {
		return 0, 0, ""
	}
	read, err := readProgress(volume)
	if errors.Join(err, volume.Close()) != nil || read.Done < 0 || read.Total < 0 {
		return 0, 0, ""
	}
	return read.Done, read.Total, shorten.Text(read.Waits, mostError)
}

func readProgress(volume hostpath.Volume) (read progress, err error) {
	root, err := volume.Root()
	if err != nil {
		return read, err
	}
	defer func() { _ = root.Close() }() // a directory
	file, err := root.Open(progressFile)
	if err != nil {
		return read, err
	}
	defer func() { _ = file.Close() }() // is only read
	return decodeProgress(file)
}

func decodeProgress(from io.Reader) (read progress, err error) {
	err = json.NewDecoder(io.LimitReader(from, mostProgress)).Decode(&read)
	return read, err
}
