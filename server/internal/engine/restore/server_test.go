package restore

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/configmap"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// ofServer returns an object of the server's custom resources.
func ofServer(plural, kind, namespace, name string, extra obj) thing {
	version := "velero.io/v1"
	if plural == "datadownloads" {
		version = "velero.io/v2alpha1"
	}
	return in(plural+".velero.io", version, kind, namespace, name, extra)
}

// TestAcceptRestore_IntoItself restores a backup of the server's own namespace into that namespace, over existing
// objects, with status.
func TestAcceptRestore_IntoItself(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	definitions, err := client.New(c.config, client.Options{})
	require.NoError(t, err)
	require.NoError(t, install.Definitions(t.Context(), definitions, func(string, string) {}))
	ns, elsewhere := unique(t, "server"), unique(t, "else")
	for _, name := range []string{ns, elsewhere} {
		c.create(namespaceThing(name, nil), "test")
	}
	lease := func(namespace, holder string) thing {
		return in("leases.coordination.k8s.io", "coordination.k8s.io/v1", "Lease", namespace, "cleat-server",
			obj{"spec": obj{"holderIdentity": holder, "leaseDurationSeconds": 15}})
	}
	phase := func(phase string, spec obj) obj { return obj{"spec": spec, "status": obj{"phase": phase}} }
	backupSpec := obj{"storageLocation": "default"}

	// The objects that the server uses, and those that it processes.
	kept := []thing{
		lease(ns, "the-running-server"),
		ofServer("backups", "Backup", ns, "at-work", phase("InProgress", backupSpec)),
		ofServer("backups", "Backup", ns, "b", phase("Completed", backupSpec)),
		ofServer("restores", "Restore", ns, "r", phase("InProgress", obj{"backupName": "b"})),
		ofServer("downloadrequests", "DownloadRequest", ns, "present",
			obj{"spec": obj{"target": obj{"kind": "BackupLog", "name": "b"}}}),
		ofServer("schedules", "Schedule", ns, "nightly", obj{"spec": obj{"schedule": "@daily", "template": obj{}}}),
	}
	before := map[string]any{}
	for _, one := range kept {
		before[pathOf(one, true)] = dig(c.create(one, "test"), "metadata", "resourceVersion")
	}
	settings := configMap(ns, "settings", nil)
	c.create(settings, "test")

	// The same objects in the backup.
	weekly := ofServer("schedules", "Schedule", ns, "weekly", obj{"spec": obj{"schedule": "@weekly", "template": obj{}}})
	orders := []thing{
		ofServer("deletebackuprequests", "DeleteBackupRequest", ns, "old", phase("New", obj{"backupName": "b"})),
		ofServer("downloadrequests", "DownloadRequest", ns, "old",
			phase("New", obj{"target": obj{"kind": "BackupLog", "name": "b"}})),
		ofServer("downloadrequests", "DownloadRequest", ns, "present",
			phase("New", obj{"target": obj{"kind": "BackupContents", "name": "b"}})),
		ofServer("serverstatusrequests", "ServerStatusRequest", ns, "old", phase("New", obj{})),
		ofServer("podvolumebackups", "PodVolumeBackup", ns, "old", phase("InProgress", obj{})),
		ofServer("podvolumerestores", "PodVolumeRestore", ns, "old", phase("InProgress", obj{})),
		ofServer("datadownloads", "DataDownload", ns, "old", phase("InProgress", obj{})),
		ofServer("backups", "Backup", ns, "at-work", phase("Queued", obj{"storageLocation": "other"})),
		ofServer("backups", "Backup", ns, "b", phase("Queued", obj{"storageLocation": "other"})),
		ofServer("backups", "Backup", ns, "gone", phase("InProgress", backupSpec)),
		ofServer("restores", "Restore", ns, "r", phase("New", obj{"backupName": "other"})),
		ofServer("restores", "Restore", ns, "gone", phase("InProgress", obj{"backupName": "other"})),
		// There may be another server in the other namespace.
		ofServer("deletebackuprequests", "DeleteBackupRequest", elsewhere, "old", phase("New", obj{"backupName": "b"})),
	}
	archived := slices.Concat(orders, []thing{lease(ns, "a-dead-server"), lease(elsewhere, "somebody"),
		configMap(ns, "settings", obj{"data": obj{"a": "from the backup"}}),
		weekly})
	restore := newRestore("r", func(s *velerov1.RestoreSpec) {
		s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate
		s.RestoreStatus = &velerov1.RestoreStatusSpec{IncludedResources: []string{"*"}}
	})
	restore.Namespace = ns
	// An action that requests such an object does not get it restored either.
	asks := &fakeAction{name: "a/asks", applies: framework.ResourceSelector{IncludedResources: []string{"configmaps"}}}
	asks.execute = func(input restoreitemaction.Input) (*restoreitemaction.Result, error) {
		return &restoreitemaction.Result{Item: input.Item, AdditionalItems: []framework.ResourceIdentifier{
			{Group: "velero.io", Resource: "deletebackuprequests", Namespace: ns, Name: "old"},
			{Group: "coordination.k8s.io", Resource: "leases", Namespace: ns, Name: "cleat-server"},
		}}, nil
	}
	result := c.mustRestore(pack(t, archived...), restore, asks)
	for _, one := range kept {
		require.Equal(t, before[pathOf(one, true)], dig(c.live(one), "metadata", "resourceVersion"), "%s was written",
			one.name)
	}
	for _, one := range orders {
		if _, isKept := before[pathOf(one, true)]; !isKept {
			require.Nil(t, c.live(one), "%s %s was restored", one.gr, one.name)
		}
	}
	require.Equal(t, "from the backup", dig(c.live(settings), "data", "a"),
		"the rest of the namespace is restored as the policy says")
	require.Nil(t, c.live(weekly), "it would create backups")
	require.Equal(t, "somebody", dig(c.live(lease(elsewhere, "")), "spec", "holderIdentity"),
		"leases elsewhere are not the server's")
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Equal(t, []string{"not restored, because a server would act on them again or lives on them: " +
		"3 backups.velero.io, 1 datadownloads.velero.io, 2 deletebackuprequests.velero.io, 2 downloadrequests.velero.io, " +
		"1 leases.coordination.k8s.io, 1 podvolumebackups.velero.io, 1 podvolumerestores.velero.io, 2 restores.velero.io, " +
		"1 schedules.velero.io, " +
		"1 serverstatusrequests.velero.io; to restore schedules.velero.io into the namespace of the server, name them in " +
		"includedResources"}, result.Results.Warnings.Velero)

	t.Run("what the restore includes by name", func(t *testing.T) { //nolint:paralleltest // one after the other, in one cluster
		restore := newRestore("named", func(s *velerov1.RestoreSpec) {
			s.IncludedResources = []string{"schedules", "leases", "deletebackuprequests"}
		})
		restore.Namespace = ns
		c.mustRestore(pack(t, archived...), restore)
		require.NotNil(t, c.live(weekly))
		require.Equal(t, "the-running-server", dig(c.live(lease(ns, "")), "spec", "holderIdentity"))
		for _, one := range orders[:1] {
			require.Nil(t, c.live(one), one.name)
		}
	})
	t.Run("what actions make of other objects", func(t *testing.T) { //nolint:paralleltest // one after the other, in one cluster
		became := map[string]func(obj){
			"order": func(o obj) {
				o["apiVersion"], o["kind"], o["spec"] = "velero.io/v1", "DeleteBackupRequest", obj{"backupName": "b"}
			},
			"upload":   func(o obj) { o["apiVersion"], o["kind"], o["spec"] = "velero.io/v2alpha1", "DataUpload", obj{} },
			"location": func(o obj) { o["apiVersion"], o["kind"] = "velero.io/v1", "BackupStorageLocation" },
			"lease": func(o obj) {
				o["apiVersion"], o["kind"], o["spec"] = "coordination.k8s.io/v1", "Lease", obj{"holderIdentity": "x"}
			},
			"event":      func(o obj) { o["kind"], o["involvedObject"] = "Event", obj{} },
			"secret":     func(o obj) { o["kind"], o["data"] = "Secret", nil },
			"binding":    func(o obj) { o["apiVersion"], o["kind"] = "rbac.authorization.k8s.io/v1", "ClusterRoleBinding" },
			"journal":    func(o obj) { o["metadata"].(obj)["labels"] = obj{operation.KindLabel: "backup"} },
			"record":     func(o obj) { o["metadata"].(obj)["labels"] = obj{volumes.OwnerLabel: "uid"} },
			"volume":     func(o obj) { o["metadata"].(obj)["labels"] = obj{volumes.RestoreLabel: "uid"} },
			"ledger":     func(o obj) { o["metadata"].(obj)["name"] = configmap.Ledger },
			"configmaps": func(o obj) { o["data"] = obj{"a": "2"} },
		}
		changes := &fakeAction{name: "a/changes",
			applies: framework.ResourceSelector{IncludedResources: []string{"configmaps"}}}
		changes.execute = func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
			return mutate(in, func(o obj) { became[dig(o, "metadata", "name").(string)](o) })
		}
		var made []thing
		for name := range became {
			made = append(made, configMap(ns, name, nil))
		}
		restore := newRestore("changed", func(s *velerov1.RestoreSpec) { s.ExcludedResources = []string{"secrets"} })
		restore.Namespace = ns
		result := c.mustRestore(pack(t, made...), restore, changes)
		require.Equal(t, []string{"ConfigMap " + ns + "/configmaps"}, created(result, ""))
		require.Len(t, result.Results.Errors.Namespaces[ns], 1, "%+v", result.Results.Errors)
		require.Contains(t, result.Results.Errors.Namespaces[ns][0],
			"rbac.authorization.k8s.io/v1/ClusterRoleBinding, which exists in another scope")
		require.Len(t, result.Results.Warnings.Namespaces[ns], 2, "%+v", result.Results.Warnings)
		require.Contains(t, result.Results.Warnings.Namespaces[ns][0], "one of events, which the restore excludes")
		require.Contains(t, result.Results.Warnings.Namespaces[ns][1], "one of secrets, which the restore excludes")
		require.Equal(t, []string{"not restored, because a server would act on them again or lives on them: 1 " +
			"backupstoragelocations.velero.io, 4 configmaps, " +
			"1 datauploads.velero.io, 1 deletebackuprequests.velero.io, 1 leases.coordination.k8s.io; " +
			"to restore backupstoragelocations.velero.io into the namespace of the server, name them in includedResources"},
			result.Results.Warnings.Velero)
		require.Nil(t, c.live(configMap(ns, configmap.Ledger, nil)))
		require.Nil(t, c.live(in("secrets", "v1", "Secret", ns, "secret", nil)))
	})
	t.Run("objects of another namespace that are mapped into it", func(t *testing.T) { //nolint:paralleltest // one after the other, in one cluster
		restore := newRestore("mapped", func(s *velerov1.RestoreSpec) {
			s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate
			s.NamespaceMapping = map[string]string{elsewhere: ns}
		})
		restore.Namespace = ns
		result := c.mustRestore(pack(t, lease(elsewhere, "somebody"), configMap(elsewhere, "mapped", nil)), restore)
		require.Equal(t, "the-running-server", dig(c.live(lease(ns, "")), "spec", "holderIdentity"))
		require.NotNil(t, c.live(configMap(ns, "mapped", nil)))
		require.Len(t, result.Results.Warnings.Velero, 1)
	})
}

// The definitions of the server's custom resources may be newer than the backup.
func TestDefinitionsOfTheServerAreNotUpdated(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	stem := unique(t, "x")
	mine, other := widgetCRD("velero.io", stem, "K"+stem), widgetCRD(unique(t, "g")+".example.com", stem, "K"+stem)
	for _, one := range []thing{mine, other} {
		c.create(one, "test")
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
		c.must(http.MethodPatch, pathOf(one, true), kubeapi.MergePatch,
			[]byte(`{"spec":{"names":{"shortNames":["`+one.name[:20]+`"]}}}`))
	}
	old := func(one thing) thing {
		return in(one.gr, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", one.name, obj{
			"metadata": obj{"annotations": obj{"from": "the backup"}}, "spec": c.live(one)["spec"],
		})
	}
	result := c.mustRestore(pack(t, old(mine), old(other)),
		newRestore("r", func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate }))
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Nil(t, dig(c.live(mine), "metadata", "annotations", "from"))
	require.Equal(t, "the backup", dig(c.live(other), "metadata", "annotations", "from"))
	require.Equal(t, []string{"not updated, because the server that restores needs them as they are in the cluster: 1 " +
		"customresourcedefinitions.apiextensions.k8s.io"},
		result.Results.Warnings.Velero)
}

// Objects that the server's pod uses are not updated: that would stop the server, or give it outdated credentials.
func TestWhatTheServerRunsWithIsNotUpdated(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "own")
	c.create(namespaceThing(ns, nil), "test")
	deployment := func(name, image string) thing {
		labels := obj{"app": name}
		return in("deployments.apps", "apps/v1", "Deployment", ns, name, obj{"spec": obj{
			"selector": obj{"matchLabels": labels},
			"template": obj{"metadata": obj{"labels": labels}, "spec": obj{
				"automountServiceAccountToken": false,
				"containers": []obj{{
					"name": "c", "image": image,
					"env":     []obj{{"name": "A", "valueFrom": obj{"configMapKeyRef": obj{"name": "settings", "key": "a"}}}},
					"envFrom": []obj{{"secretRef": obj{"name": "environment"}}},
				}},
				"volumes": []obj{
					{"name": "credentials", "secret": obj{"secretName": "credentials"}},
					{"name": "all", "projected": obj{"sources": []obj{{"configMap": obj{"name": "projected"}}}}},
				},
			}},
		}})
	}
	secret := func(name, value string) thing {
		return in("secrets", "v1", "Secret", ns, name, obj{"stringData": obj{"a": value}})
	}
	settings := func(name, value string) thing { return configMap(ns, name, obj{"data": obj{"a": value}}) }
	all := func(value string) []thing {
		return []thing{
			deployment("server", value), secret("credentials", value), secret("environment", value), settings("settings", value),
			settings("projected", value),
			deployment("other", value), secret("other", value), settings("other", value),
		}
	}
	const own = 5
	var archived []thing
	for _, one := range all("old") {
		c.create(one, "test")
		archived = append(archived, c.asThing(one))
	}
	for _, one := range all("new") {
		c.must(http.MethodPatch, pathOf(one, true), kubeapi.MergePatch, one.body)
	}
	var pod string
	require.Eventually(t, func() bool {
		pods, _ := c.get("/api/v1/namespaces/" + ns + "/pods?labelSelector=app%3Dserver")["items"].([]any)
		for _, one := range pods {
			containers, _ := dig(one, "spec", "containers").([]any)
			if dig(containers[0], "image") == "new" {
				pod, _ = dig(one, "metadata", "name").(string)
			}
		}
		return pod != ""
	}, 5*time.Minute, 50*time.Millisecond)
	value := func(one thing) string {
		live := c.live(one)
		if containers, ok := dig(live, "spec", "template", "spec", "containers").([]any); ok {
			return dig(containers[0], "image").(string)
		}
		return map[any]string{"old": "old", "b2xk": "old", "new": "new", "bmV3": "new"}[dig(live, "data", "a")]
	}

	restore := newRestore("r", func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate })
	restore.Namespace = ns
	options := testOptions()
	options.Pod = pod
	result, err := c.restore(pack(t, archived...), restore, options)
	require.NoError(t, err)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	for i, one := range archived {
		want := "old"
		if i < own {
			want = "new"
		}
		require.Equal(t, want, value(one), "%s %s", one.gr, one.name)
	}
	require.Equal(t, []string{"not updated, because the server that restores needs them as they are in the cluster: " +
		"2 configmaps, 1 deployments.apps, 2 secrets"}, result.Results.Warnings.Velero)
}
