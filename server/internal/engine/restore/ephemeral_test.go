package restore

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// ephemeral returns a pod with an ephemeral volume, and the claim of that volume in the backup.
func ephemeral(namespace, phase string) (pod, claim thing) {
	spec := obj{"accessModes": []string{"ReadWriteOnce"}, "storageClassName": "none",
		"resources": obj{"requests": obj{"storage": "1Gi"}}}
	pod = in("pods", "v1", "Pod", namespace, "web", obj{
		"spec": obj{
			"automountServiceAccountToken": false, "containers": []obj{{"name": "c", "image": "x.invalid/x"}},
			"volumes": []obj{{"name": "scratch", "ephemeral": obj{"volumeClaimTemplate": obj{"spec": spec}}}},
		},
		"status": obj{"phase": phase},
	})
	claim = in("persistentvolumeclaims", "v1", "PersistentVolumeClaim", namespace, "web-scratch", obj{
		"metadata": obj{"ownerReferences": []obj{{"apiVersion": "v1", "kind": "Pod", "name": "web",
			"uid": "of-another-cluster", "controller": true}}},
		"spec": spec,
	})
	return pod, claim
}

// owner returns the UID of the only owner of an object, or nil if there is none.
func owner(o obj) any {
	owners, _ := dig(o, "metadata", "ownerReferences").([]any)
	if len(owners) != 1 {
		return nil
	}
	return dig(owners[0], "uid")
}

func TestClaimOfAnEphemeralVolumeIsRestoredWithItsPod(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, row := range map[string]struct {
		phase    string
		noPod    bool // in the backup
		change   func(*velerov1.RestoreSpec)
		restored bool
	}{
		"with its pod": {phase: "Running", restored: true},
		"into another name": {phase: "Running", restored: true,
			change: func(s *velerov1.RestoreSpec) { s.NamespaceMapping = map[string]string{} }},
		"a pod left out": {phase: "Running",
			change: func(s *velerov1.RestoreSpec) { s.ExcludedResources = []string{"pods"} }},
		"a completed pod":     {phase: "Succeeded"},
		"a pod not backed up": {phase: "Running", noPod: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{t: t, config: c.config, client: c.client, host: c.host}
			ns := unique(t, "ephemeral")
			pod, claim := ephemeral(ns, row.phase)
			things := []thing{namespaceThing(ns, nil), pod, claim}
			if row.noPod {
				things = []thing{namespaceThing(ns, nil), claim}
			}
			result := c.mustRestore(pack(t, things...), newRestore("r", func(spec *velerov1.RestoreSpec) {
				if row.change != nil {
					row.change(spec)
				}
				if spec.NamespaceMapping != nil {
					spec.NamespaceMapping[ns] = ns + "-copy"
					pod.namespace, claim.namespace = ns+"-copy", ns+"-copy"
				}
			}))
			require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
			live := c.live(claim)
			require.Equal(t, row.restored, live != nil)
			if row.restored {
				require.Equal(t, dig(c.live(pod), "metadata", "uid"), owner(live))
				require.Nil(t, dig(live, "metadata", "annotations", ephemeralAnnotation))
			}
		})
	}
}

// TestClaimOfAnEphemeralVolumeIsAdoptedOnce resumes a restore whose server was killed between the pod and its claim,
// and restores beside a claim of another owner.
func TestClaimOfAnEphemeralVolumeIsAdoptedOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, marked := range map[string]bool{"of the restore": true, "of somebody else": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{t: t, config: c.config, client: c.client, host: c.host}
			ns := unique(t, "adopted")
			pod, claim := ephemeral(ns, "Running")
			backup := pack(t, namespaceThing(ns, nil), pod, claim)
			c.create(namespaceThing(ns, nil), "me")
			there := in(claim.gr, "v1", "PersistentVolumeClaim", ns, claim.name, obj{"spec": obj{
				"accessModes": []string{"ReadWriteOnce"}, "storageClassName": "none",
				"resources": obj{"requests": obj{"storage": "1Gi"}},
			}})
			c.create(there, "me")
			if marked {
				c.must(http.MethodPatch, pathOf(claim, true), kubeapi.MergePatch,
					[]byte(`{"metadata":{"annotations":{"`+ephemeralAnnotation+`":"web"}}}`))
			}
			c.create(pod, "me")
			for range 2 {
				c.mustRestore(backup, newRestore("r", nil))
				if !marked {
					require.Nil(t, owner(c.live(claim)))
					continue
				}
				require.Equal(t, dig(c.live(pod), "metadata", "uid"), owner(c.live(claim)))
			}
		})
	}
}
