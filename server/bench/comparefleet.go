package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/test/fleet"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/velero"
)

const (
	fleetWork      = "a restore of clusters of Cluster API with their operator"
	fleetName      = "fleet"
	fleetClusters  = 20
	fleetMachines  = 11              // of each of the two deployments of a cluster
	operatorStarts = 2 * time.Second // after its deployment was restored
)

// compareFleet has both servers restore the same archive, into a new cluster each: objects in the shape of Cluster API,
// which a webhook refuses while what they refer to is missing, and the operator that serves the webhook.
func compareFleet(ctx context.Context, cleat string, built *velero.Programs) error {
	fmt.Printf("\n| %s | seconds | objects | owner references | errors | warnings |\n|---|---|---|---|---|---|\n",
		fleetWork)
	for side := range 2 {
		if err := restoreFleet(ctx, cleat, built, side); err != nil {
			return err
		}
	}
	return nil
}

// restoreFleet has one of the servers restore the fleet into a new cluster.
func restoreFleet(ctx context.Context, cleat string, built *velero.Programs, side int) (err error) {
	s, err := newSite(ctx, cleat, "--enable-aggregator-routing") // there are no nodes that route services
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	contestants, err := s.contestants(ctx, built)
	if err != nil {
		return err
	}
	return s.restoreFleet(ctx, contestants[side])
}

// restoreFleet has a server restore the fleet, and prints a row of the table.
func (s *site) restoreFleet(ctx context.Context, c contestant) (err error) {
	operator, err := fleet.NewOperator(fleetName+"-operator", s.WorkDir)
	if err != nil {
		return err
	}
	objects := fleet.New(fleetName, fleetClusters, fleetMachines)
	if err := s.storeFleet(ctx, slices.Concat(objects, fleet.Definitions(), operator.Objects(),
		[]fleet.Object{operator.Configuration(fleetName, fleet.Groups(), "*")})); err != nil {
		return err
	}
	server, err := c.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	var took time.Duration
	var ended *unstructured.Unstructured
	stop := func() {}
	defer func() { stop() }()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		took, ended, err = s.toItsEnd(ctx, "restores", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "velero.io/v1", "kind": "Restore",
			"metadata": map[string]any{"name": fleetName,
				"annotations": map[string]any{velerov1.OwnerReferencesAnnotation: "true"}},
			"spec": map[string]any{"backupName": fleetName, "includedNamespaces": []any{"*"}, "includeClusterResources": true},
		}})
		return err
	})
	both.Go(func() (err error) {
		stop, err = s.startOperator(ctx, operator)
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	restored, owned, err := s.countFleet(context.WithoutCancel(ctx))
	if err = errors.Join(err, s.sayErrors(c.name)); err != nil {
		return err
	}
	number := func(name string) int64 {
		n, _, _ := unstructured.NestedInt64(ended.Object, "status", name)
		return n
	}
	owning := 0
	for _, o := range objects {
		owning += len(ownersOf(o.Body))
	}
	fmt.Printf("| %s | %.0f | %d of %d | %d of %d | %d | %d |\n", c.name, took.Seconds(), restored, len(objects)-1, owned,
		owning, number("errors"), number("warnings"))
	return nil
}

// ownersOf returns the owners of an object.
func ownersOf(body []byte) []metav1.OwnerReference {
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(body, &object) // the fleet has made it
	return object.OwnerReferences
}

// storeFleet makes a backup of objects, as Velero would have.
func (s *site) storeFleet(ctx context.Context, objects []fleet.Object) error {
	dir := filepath.Join(s.S3.Dir, s.Bucket, "backups", fleetName)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, fleetName+".tar.gz"))
	if err != nil {
		return err
	}
	w, err := archive.NewWriter(file, time.Now())
	if err != nil {
		return errors.Join(err, file.Close())
	}
	for _, o := range objects {
		err = errors.Join(err, w.Item(schema.ParseGroupResource(o.Resource), o.Version, true, o.Namespace, o.Name, o.Body))
	}
	if err = errors.Join(err, w.Close(), file.Close()); err != nil {
		return err
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	backup := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "velero.io/v1", "kind": "Backup",
		"metadata": map[string]any{"name": fleetName, "namespace": roundtrip.Namespace,
			"labels": map[string]any{velerov1.StorageLocationLabel: "default"}},
		"spec": map[string]any{"storageLocation": "default"},
		"status": map[string]any{"phase": "Completed", "formatVersion": "1.1.0", "version": int64(1),
			"startTimestamp": now, "completionTimestamp": now},
	}}
	text, err := backup.MarshalJSON()
	if err != nil {
		return err
	}
	backups := s.dynamic.Resource(velerov1.SchemeGroupVersion.WithResource("backups"))
	_, err = backups.Namespace(roundtrip.Namespace).Create(ctx, backup, metav1.CreateOptions{})
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "velero-backup.json"), text, 0o600))
}

// startOperator starts the operator some time after its deployment was restored, as a node would.
func (s *site) startOperator(ctx context.Context, o *fleet.Operator) (stop func(), err error) {
	stop = func() {}
	deployments := s.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	if err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := deployments.Namespace(o.Namespace).Get(ctx, "operator", metav1.GetOptions{})
		return err == nil, nil
	}); err != nil {
		return stop, err
	}
	time.Sleep(operatorStarts)
	endpoint, ended, err := o.Run(context.WithoutCancel(ctx),
		&rest.Config{Host: s.cluster.APIServer, BearerToken: s.cluster.Token})
	if err != nil {
		return stop, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(endpoint.Body); err != nil {
		return ended, err
	}
	gr := schema.ParseGroupResource(endpoint.Resource)
	_, err = s.dynamic.Resource(gr.WithVersion(endpoint.Version)).Namespace(o.Namespace).Create(ctx, object,
		metav1.CreateOptions{})
	return ended, err
}

// sayErrors prints the first errors of the restore.
func (s *site) sayErrors(name string) error {
	path := filepath.Join(s.S3.Dir, s.Bucket, "restores", fleetName, "restore-"+fleetName+"-results.gz")
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	plain, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var results struct {
		Errors struct{ Namespaces map[string][]string }
	}
	if err := json.NewDecoder(plain).Decode(&results); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, problems := range results.Errors.Namespaces {
		for _, problem := range problems[:min(3, len(problems))] {
			say("%s: %.300s", name, problem)
		}
	}
	return nil
}

// countFleet returns how many objects of the fleet are in the cluster, and how many of their owner references.
func (s *site) countFleet(ctx context.Context) (objects, owners int, err error) {
	resources := []schema.GroupVersionResource{{Version: "v1", Resource: "secrets"}}
	for _, name := range fleet.Resources() {
		resources = append(resources, schema.ParseGroupResource(name).WithVersion("v1beta1"))
	}
	for _, gvr := range resources {
		list, err := s.dynamic.Resource(gvr).Namespace(fleetName).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, 0, err
		}
		objects += len(list.Items)
		for _, one := range list.Items {
			owners += len(one.GetOwnerReferences())
		}
	}
	return objects, owners, nil
}
