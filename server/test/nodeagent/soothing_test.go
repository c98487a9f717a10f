package nodeagent_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// TestAcceptVolumes_Soothing admits loads of all four kinds with agents that are processes.
func TestAcceptVolumes_Soothing(t *testing.T) {
	t.Parallel()
	t.Run("Exact", testExact)
	t.Run("Unconstrained", testUnconstrained)
	t.Run("Deletions", testDeletions)
	t.Run("External", testExternalPolicy)
	t.Run("Broken", testBrokenPolicy)
	t.Run("PlacesForRestores", testPlacesForRestores)
}

// testExact moves 200 loads with three agents. At most two are Accepted or Prepared at any time.
func testExact(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.configure(`{"loadConcurrency": {"prepareQueueLength": 2}}`)
	s.expose()
	s.agents()
	snapshot := s.snapshot()
	const each = 50
	for i := range each {
		node := s.nodes[i%len(s.nodes)]
		s.create(
			s.backup(fmt.Sprintf("b-%d", i), node), s.restore(fmt.Sprintf("r-%d", i), node, snapshot),
			s.upload(fmt.Sprintf("u-%d", i)), s.download(fmt.Sprintf("d-%d", i), snapshot),
		)
	}
	s.awaitEnd(4*each + 1)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCompleted: 4*each + 1}, s.ends())
	require.Equal(t, map[string]int{"": 2}, s.most(preparing))
	s.requireReason("2 loads are in preparation, and no more than 2 may be at once")
}

// TestAcceptVolumes_RestoresFirst has backups, which are older, and restores that wait for two positions. A backup is
// admitted only while it leaves a position for each waiting restore.
func TestAcceptVolumes_RestoresFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.configure(`{"loadConcurrency": {"prepareQueueLength": 2}}`)
	s.expose()
	s.agents()
	snapshot := s.snapshot()
	first, second := s.nodes[0], s.nodes[1]
	s.hold(first)
	s.create(s.backup("runs", first))
	s.awaitPhase("PodVolumeBackup/runs", velerov1.LoadPhaseInProgress)
	s.create(s.backup("prepared-1", first), s.backup("prepared-2", first))
	s.awaitPhase("PodVolumeBackup/prepared-1", velerov1.LoadPhasePrepared)
	s.awaitPhase("PodVolumeBackup/prepared-2", velerov1.LoadPhasePrepared)
	const each = 4
	for i := range each {
		s.create(s.backup(fmt.Sprintf("b-%d", i), second), s.upload(fmt.Sprintf("u-%d", i)))
	}
	for i := range each {
		s.create(s.restore(fmt.Sprintf("r-%d", i), s.nodes[i%2], snapshot), s.download(fmt.Sprintf("d-%d", i), snapshot))
	}
	s.await("all wait", func(last map[string]state) bool {
		for i := range each {
			for _, key := range []string{"PodVolumeBackup/b-", "DataUpload/u-", "PodVolumeRestore/r-", "DataDownload/d-"} {
				if last[key+strconv.Itoa(i)].message == "" {
					return false
				}
			}
		}
		return true
	})
	s.release(first)
	s.awaitEnd(4*each + 4)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCompleted: 4*each + 4}, s.ends())
	require.Equal(t, map[string]int{"": 2}, s.most(preparing))

	left := map[string]bool{} // waiting restores
	for i := range each {
		left["PodVolumeRestore/r-"+strconv.Itoa(i)], left["DataDownload/d-"+strconv.Itoa(i)] = true, true
	}
	for _, o := range s.states() {
		key := o.kind + "/" + o.name
		if o.phase == velerov1.LoadPhaseNew || o.phase == "" {
			continue
		}
		delete(left, key)
		if strings.HasPrefix(key, "PodVolumeBackup/b-") || strings.HasPrefix(key, "DataUpload/u-") {
			require.Less(t, len(left), 2, "%s is %s before %v", key, o.phase, left)
		}
	}
	require.Empty(t, left)
}

// testPlacesForRestores has a position that only restores may take.
func testPlacesForRestores(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	node := s.nodes[0]
	s.configure(`{"loadConcurrency": {"prepareQueueLength": 2}}`)
	s.config = "apiVersion: cleat.dev/v1\nnodeAgent: {soothing: {plugin: cleat.dev/prepare-queue, config: " +
		"{placesForRestores: 1}}}\n"
	s.agents()
	snapshot := s.snapshot()
	s.hold(node)
	s.create(s.backup("runs", node))
	s.awaitPhase("PodVolumeBackup/runs", velerov1.LoadPhaseInProgress)
	s.create(s.backup("prepared", node))
	s.awaitPhase("PodVolumeBackup/prepared", velerov1.LoadPhasePrepared)
	s.create(s.backup("waits", node))
	s.await("a backup waits", func(last map[string]state) bool {
		return last["PodVolumeBackup/waits"].message == "1 of 2 places are free, and 1 are kept for restores"
	})
	s.create(s.restore("restored", node, snapshot))
	s.awaitPhase("PodVolumeRestore/restored", velerov1.LoadPhasePrepared)
	s.release(node)
	s.awaitEnd(5)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCompleted: 5}, s.ends())
}

// testUnconstrained has no prepareQueueLength or a negative one: all loads are prepared at once.
func testUnconstrained(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	node := s.nodes[0]
	s.hold(node)
	const loads = 12
	for i, document := range []string{"", `{"loadConcurrency": {"prepareQueueLength": -2}}`} {
		if document != "" {
			s.configure(document)
		}
		a := s.agent(node)
		for j := range loads {
			s.create(s.backup(fmt.Sprintf("b-%d-%d", i, j), node))
		}
		s.await("all are prepared", func(last map[string]state) bool {
			count := map[velerov1.LoadPhase]int{}
			for _, o := range last {
				count[o.phase]++
			}
			return count[velerov1.LoadPhasePrepared] == loads-1 && count[velerov1.LoadPhaseInProgress] == 1
		})
		require.Equal(t, "{}", s.ledger().Data["loads"])
		s.release(node)
		s.awaitEnd((i + 1) * loads)
		s.hold(node)
		if document != "" {
			require.Contains(t, a.log.String(), "loadConcurrency.prepareQueueLength is -2 and is ignored")
		}
		a.kill()
	}
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCompleted: 2 * loads}, s.ends())
}

// testDeletions deletes loads in every phase, and edits and deletes the ledger. The positions of deleted loads go to
// others.
func testDeletions(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.configure(`{"loadConcurrency": {"prepareQueueLength": 2}}`)
	s.agents()
	first, second := s.nodes[0], s.nodes[1]
	s.hold(first)
	s.create(s.backup("runs", first))
	s.awaitPhase("PodVolumeBackup/runs", velerov1.LoadPhaseInProgress)
	s.create(s.backup("prepared", first))
	s.awaitPhase("PodVolumeBackup/prepared", velerov1.LoadPhasePrepared)
	s.create(s.upload("accepted")) // no component exposes its volume
	s.awaitPhase("DataUpload/accepted", velerov1.LoadPhaseAccepted)
	s.create(s.backup("new-1", second), s.backup("new-2", second), s.upload("new-3"))
	s.await("all wait", func(last map[string]state) bool {
		return last["PodVolumeBackup/new-1"].message != "" && last["PodVolumeBackup/new-2"].message != "" &&
			last["DataUpload/new-3"].message != ""
	})
	for _, object := range []client.Object{s.backup("new-1", second), s.upload("new-3"), s.upload("accepted")} {
		object.SetNamespace(s.namespace)
		require.NoError(t, s.client.Delete(t.Context(), object))
	}
	s.awaitPhase("PodVolumeBackup/new-2", velerov1.LoadPhaseCompleted) // in the position of "accepted"

	s.editLedger("not JSON")
	s.create(s.upload("accepted-2"))
	s.awaitPhase("DataUpload/accepted-2", velerov1.LoadPhaseAccepted)
	s.editLedger(`{"stranger-1": {"version": "1", "kind": "DataUpload", "name": "stranger-1"}, "stranger-2": {"version": "99999999999999999999", "kind": "Toy", "name": "s"}, "stranger-3": 7}`)
	for _, object := range []client.Object{s.backup("runs", first), s.backup("prepared", first), s.upload("accepted-2")} {
		object.SetNamespace(s.namespace)
		require.NoError(t, s.client.Delete(t.Context(), object))
	}
	s.awaitEnd(7)
	s.create(s.backup("after-strangers", second))
	s.awaitPhase("PodVolumeBackup/after-strangers", velerov1.LoadPhaseCompleted)
	require.NoError(t, s.client.Delete(t.Context(), s.ledger()))
	s.create(s.backup("after-loss", second))
	s.awaitPhase("PodVolumeBackup/after-loss", velerov1.LoadPhaseCompleted)
}

// editLedger replaces the notes in the ledger.
func (s *site) editLedger(loads string) {
	s.t.Helper()
	cm := s.ledger()
	s.change(cm, func() { cm.Data["loads"] = loads })
}

// testExternalPolicy configures a plugin that gives each storage class a budget.
func testExternalPolicy(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	programs.Copy(t, "examples/load-budget", filepath.Join(s.plugins, "load-budget"))
	s.config = "apiVersion: cleat.dev/v1\nnodeAgent: {soothing: {plugin: example.cleat.dev/class-budget, config: " +
		"{classes: {fast: {loads: 1}}, default: {loads: 3}}}}\n"
	const loads = 8
	for i := range loads {
		claimed := s.backup(fmt.Sprintf("fast-%d", i), s.nodes[i%2]) // only its claim has the class fast
		claimed.Spec.Volume = "claimed"
		s.create(s.upload(fmt.Sprintf("u-%d", i)), s.backup(fmt.Sprintf("b-%d", i), s.nodes[i%2]), claimed)
	}
	s.expose()
	s.agents()
	s.awaitEnd(3 * loads)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCompleted: 3 * loads}, s.ends())
	most := s.most(func(o state) (string, bool) {
		_, counted := preparing(o)
		return map[bool]string{true: "default", false: "fast"}[strings.HasPrefix(o.name, "b-")], counted
	})
	require.Equal(t, 1, most["fast"])
	require.LessOrEqual(t, most["default"], 3)
	var claimed velerov1.PodVolumeBackup
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "fast-0"}, &claimed))
	require.Equal(t, "fast", claimed.Annotations[velerov1.LoadStorageClassAnnotation])
	require.Equal(t, strconv.Itoa(1<<30), claimed.Annotations[velerov1.LoadBytesAnnotation])
	s.requireReason("storage class fast has a budget of 1 loads, and as many are in preparation")
}

// testBrokenPolicy configures a plugin whose process dies in each call. With failurePolicy Hold, loads stay New with
// the reason. With UseBuiltIn, the built-in policy decides.
func testBrokenPolicy(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	programs.Copy(t, "server/internal/control/policy/testdata/policy", filepath.Join(s.plugins, "policy"))
	s.configure(`{"loadConcurrency": {"prepareQueueLength": 2}}`)
	for i := range 6 {
		s.create(s.backup(fmt.Sprintf("b-%d", i), s.nodes[0]))
	}
	const broken = "apiVersion: cleat.dev/v1\nnodeAgent: {soothing: {plugin: example.io/policy, failurePolicy: %s, " +
		"config: {do: die}}}\n"
	s.config = fmt.Sprintf(broken, "Hold")
	a := s.agent(s.nodes[0])
	s.await("all are held", func(last map[string]state) bool {
		for _, o := range last {
			if o.phase != velerov1.LoadPhaseNew || !strings.Contains(o.message, "held (failurePolicy: Hold): "+
				"LoadSoothing(example.io/policy)") {
				return false
			}
		}
		return len(last) == 6
	})
	a.kill()
	s.config = fmt.Sprintf(broken, "UseBuiltIn")
	s.agent(s.nodes[0])
	s.awaitEnd(6)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCompleted: 6}, s.ends())
	require.LessOrEqual(t, s.most(preparing)[""], 2)
}

// requireReason requires that a waiting load had a reason.
func (s *site) requireReason(reason string) {
	s.t.Helper()
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	told := map[string]int{}
	for _, o := range s.history.states {
		if o.phase == velerov1.LoadPhaseNew && o.message != "" {
			told[o.message]++
		}
	}
	require.Contains(s.t, told, reason)
}

// ledger returns the ledger of the agents.
func (s *site) ledger() *corev1.ConfigMap {
	s.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cleat-node-agents"}}
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(cm), cm))
	return cm
}
