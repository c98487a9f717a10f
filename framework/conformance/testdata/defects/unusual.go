package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// unusual returns what correct plugins do that most others do not.
func unusual() map[string]defect {
	all := map[string]defect{
		"unusual store that panics before Init": {kind: "ObjectStore",
			plant: func(p *program) { p.store.early = errPanicked() }},
		"unusual snapshotter that panics before Init": {kind: "VolumeSnapshotter", plant: func(p *program) {
			good, goodID, ready := p.san.init, p.san.volumeID, false
			p.san.init = func(config map[string]string) error { ready = true; return good(config) }
			p.san.volumeID = func(volume []byte) (string, error) {
				if !ready {
					return "", errPanicked()
				}
				return goodID(volume)
			}
		}},
		"unusual store that works without Init": {kind: "ObjectStore",
			plant: func(p *program) { p.store.root = os.Getenv("EXAMPLE_ROOT") }},
		"unusual store whose folders are objects": {kind: "ObjectStore", plant: func(p *program) {
			p.store.exists = func(bucket, key string) (bool, error) {
				keys, err := p.store.list(bucket, key)
				return slices.ContainsFunc(keys,
					func(found string) bool { return found == key || strings.HasPrefix(found, key+"/") }), err
			}
		}},
		"unusual store whose folders outlive their objects": {kind: "ObjectStore",
			plant: func(p *program) { keepFolders(p.store) }},
		"unusual store whose signed URLs lead to a network of its own": {kind: "ObjectStore", plant: func(p *program) {
			p.store.url = func(_, key string) (string, error) { return "http://127.0.0.1:1/" + key, nil }
		}},
		"unusual action that logs every id": {kind: "BackupItemActionV2", plant: func(p *program) {
			good := p.action.progress
			p.action.progress = func(operation string) (*shared.OperationProgress, error) {
				_ = json.NewEncoder(os.Stderr).Encode(map[string]string{"@level": "info", "@message": "progress of " + operation})
				return good(operation)
			}
		}},
		"unusual action whose AppliesTo needs a cluster": {plant: func(p *program) {
			p.action.appliesTo = func(context.Context) (*shared.ResourceSelector, error) {
				if os.Getenv("KUBECONFIG") == "" {
					return nil, errors.New("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and " +
						"KUBERNETES_SERVICE_PORT must be defined")
				}
				return nil, errors.New("the kubeconfig names no context")
			}
		}},
		"unusual action that takes its cluster from its pod": {plant: func(p *program) {
			p.action.appliesTo = func(context.Context) (*shared.ResourceSelector, error) {
				return nil, errors.New("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and " +
					"KUBERNETES_SERVICE_PORT must be defined")
			}
		}},
		"unusual action that keeps idle connections": {plant: func(p *program) {
			var connections atomic.Int64
			onExecute(p, func() {
				const most = 60 // as many as a client of HTTP keeps, with two goroutines each
				if connections.Add(1) <= most {
					go func() { select {} }()
				}
			})
		}},
		"unusual policy that waits for operations and restores": onQueue(nil, waitForOthers),
		"unusual plugin that knows its host's flags":            {plant: func(p *program) { p.flags = knownFlags }},
	}
	for _, selector := range []string{"Pod,persistentvolumeclaim", "CronJob", "Widget.example.io", "gadgets"} {
		all["unusual selector "+selector] = defect{plant: func(p *program) {
			p.action.appliesTo = func(context.Context) (*shared.ResourceSelector, error) {
				return &shared.ResourceSelector{IncludedResources: strings.Split(selector, ",")}, nil
			}
		}}
	}
	for name, one := range all {
		one.fine = true
		all[name] = one
	}
	return all
}

// waitForOthers has all backups wait for those that wait for operations and for restores, if there are any.
func waitForOthers(req decideRequest, decided decideResponse) {
	var others []string
	for _, one := range slices.Concat(req.GetOperating(), req.GetRestoring()) {
		others = append(others, one.GetName())
	}
	if len(others) == 0 {
		return
	}
	decided.Admit, decided.Order, decided.Waits = nil, nil, nil
	for _, queued := range req.GetQueued() {
		decided.Waits = append(decided.Waits, &queueadmissionv1.Wait{
			Name: queued.GetName(), Reason: "Overlap", Message: "others write its namespaces", Blockers: others,
			Namespaces: queued.GetNamespaces(),
		})
	}
}

// errPanicked returns the error with which Velero's framework answers for a handler that panics.
func errPanicked() error {
	return status.Error(codes.Aborted, "plugin panicked: runtime error: invalid memory address or nil pointer dereference")
}

// keepFolders gives a store real folders, which stay when they are empty.
func keepFolders(s *store) {
	goodPut := s.put
	s.put = func(ctx context.Context, bucket, key string, body io.Reader) error {
		if err := goodPut(ctx, bucket, key, body); err != nil {
			return err
		}
		return os.MkdirAll(filepath.Join(s.root, "folders", filepath.Dir(filepath.FromSlash(key))), 0o700)
	}
	s.prefixes = func(bucket, prefix string) ([]string, error) {
		if _, err := s.dir(bucket); err != nil {
			return nil, err
		}
		entries, err := os.ReadDir(filepath.Join(s.root, "folders", filepath.FromSlash(prefix)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var folders []string
		for _, entry := range entries {
			folders = append(folders, prefix+entry.Name()+"/")
		}
		return folders, err
	}
}

// knownFlags ends the process unless all flags are those of a server.
func knownFlags(args []string) {
	known := []string{
		"unusual", "features", "log-level", "log-format", "uploader-type", "default-volumes-to-fs-backup", "plugin-dir",
		"namespace", "kubeconfig",
	}
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		if !strings.HasPrefix(args[i], "--") || !slices.Contains(known, name) {
			fmt.Fprintf(os.Stderr, "unknown argument %q\n", args[i])
			os.Exit(2)
		}
		if !hasValue {
			i++
		}
	}
}
