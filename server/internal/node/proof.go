package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
)

const (
	// refuseAlone is the age from which every agent refuses a load, because the agent whose turn it was has not.
	refuseAlone = 30 * time.Second
	// refusedOnce is the maximum number of loads that one pass refuses, so that admissions do not wait for them.
	refusedOnce = 25
)

// Keys provides the keys with which loads are signed.
type Keys interface {
	// Of returns the key of a Backup or Restore.
	Of(ctx context.Context, kind string, uid types.UID) (loadproof.Key, error)
	// Verify calls check with that key and returns the result. The second error is set if the key is not known.
	Verify(ctx context.Context, kind string, uid types.UID, check func(loadproof.Key) error) (wrong, err error)
}

// proof is the result of verifying the signatures of a load.
type proof struct {
	refused string // why the load belongs to no backup or restore of the server; "" if it does
	forged  bool   // no agent has written its status
}

// run returns the Backup or Restore to which a load belongs.
func (l *load) run() (kind string, ref *metav1.OwnerReference) {
	kind = "Backup"
	if l.restore {
		kind = "Restore"
	}
	ref = metav1.GetControllerOf(l.Object)
	if ref == nil || ref.Kind != kind || ref.APIVersion != velerov1.SchemeGroupVersion.String() || ref.UID == "" {
		return kind, nil
	}
	return kind, ref
}

// prove sets the proof of a load.
func (a *Agent) prove(ctx context.Context, l *load) (err error) {
	if known, done := a.proofs.of(l); done {
		l.proof = known
		return nil
	}
	if l.proof, err = a.check(ctx, l); err == nil {
		a.proofs.note(l)
	}
	return err
}

func (a *Agent) check(ctx context.Context, l *load) (p proof, err error) {
	kind, run := l.run()
	if run == nil {
		return proof{refused: fmt.Sprintf("no %s controls it", kind)}, nil
	}
	if l.GetAnnotations()[velerov1.LoadSignatureAnnotation] == "" { // this needs no key
		return proof{refused: fmt.Sprintf("it has no annotation %s", velerov1.LoadSignatureAnnotation)}, nil
	}
	wrong, err := a.Keys.Verify(ctx, kind, run.UID, func(key loadproof.Key) error { return key.Verify(l.Object) })
	switch {
	case err != nil:
		return p, err
	case wrong != nil:
		return proof{refused: fmt.Sprintf("annotation %s: %s", velerov1.LoadSignatureAnnotation, wrong)}, nil
	case l.status.Phase.IsNew():
		return p, nil
	}
	if _, err := a.Movers.Find(l.spec.mover, hostpath.Volume{}); err != nil {
		return p, nil //nolint:nilerr // another controller has written the status
	}
	wrong, err = a.Keys.Verify(ctx, kind, run.UID, func(key loadproof.Key) error { return key.VerifyStatus(l.Object) })
	p.forged = wrong != nil
	return p, err
}

// refusal returns a message that a load is refused, and what would be right.
func refusal(why string) string {
	return fmt.Sprintf("refused: it was not created for a backup or restore of this server, or was changed since: %s; "+
		"loads are created by the actions of a running Backup or Restore, which sign them", why)
}

// backed returns why the Backup or Restore of a load does not move data now, or "" if it does.
func (a *Agent) backed(ctx context.Context, l *load) (string, error) {
	kind, ref := l.run()
	if ref == nil {
		return "it belongs to none", nil
	}
	var object client.Object
	var phase func() string
	if l.restore {
		r := new(velerov1.Restore)
		object, phase = r, func() string { return string(r.Status.Phase) }
	} else {
		b := new(velerov1.Backup)
		object, phase = b, func() string { return string(b.Status.Phase) }
	}
	err := a.Live.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: ref.Name}, object)
	switch {
	case apierrors.IsNotFound(err), err == nil && object.GetUID() != ref.UID:
		return fmt.Sprintf("%s %s with UID %s does not exist", kind, ref.Name, ref.UID), nil
	case err != nil:
		return "", fmt.Errorf("get %s %s, to which %s %s belongs: %w", kind, ref.Name, l.name, l.GetName(), err)
	case !slices.Contains(moving, phase()):
		return fmt.Sprintf("%s %s is %q, and data is moved only while it is one of %q", kind, ref.Name, phase(), moving), nil
	}
	return "", nil
}

// moving lists the phases in which a backup or restore moves data. Both have the same names.
var moving = []string{
	string(velerov1.BackupPhaseInProgress), string(velerov1.BackupPhaseWaitingForPluginOperations),
	string(velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed),
}

// refuse ends loads that the server has not created. It touches nothing except the load. more is true if some loads
// remain to be ended.
func (q *admission) refuse(ctx context.Context, v *view) (more bool) {
	wrote := 0
	for _, l := range v.refused {
		turn := v.ledger.Turn(l.GetUID(),
			func(node string) bool { return node != q.Node && q.turns.isAway(node, v.ledger.Agents[node]) })
		if turn != q.Node && v.now.Sub(l.GetCreationTimestamp().Time) < refuseAlone || q.leaves(v, l) {
			continue
		}
		if wrote == refusedOnce {
			return true
		}
		wrote++
		var err error
		if l.status.Phase.Terminal() { // it is being deleted, and its creator has written the finalizer
			_, err = q.write(ctx, l, func(l *load) { controllerutil.RemoveFinalizer(l.Object, l.finalizer) })
		} else {
			_, err = q.end(ctx, l, failed(refusal(l.proof.refused)))
		}
		q.note(l, err)
	}
	return false
}

// leaves reports whether a load that the server has not created is left to other controllers: to a vendor's, or to
// Velero's agents.
func (q *admission) leaves(v *view, l *load) bool {
	_, missing := q.Movers.Find(l.spec.mover, hostpath.Volume{})
	return missing != nil && l.isForeign() || v.besideVelero && l.isVeleros()
}

// storedBy returns the snapshot of a backup that has ended, or "" unless an agent has written it.
func (a *Agent) storedBy(ctx context.Context, l *load) string {
	kind, run := l.run()
	if run == nil || l.phase() != velerov1.LoadPhaseCompleted {
		return ""
	}
	wrong, err := a.Keys.Verify(ctx, kind, run.UID, func(key loadproof.Key) error { return key.VerifyStatus(l.Object) })
	if errors.Join(wrong, err) != nil {
		return ""
	}
	return l.snapshot(l.Object)
}

// sign signs the status of a load, unless the load is refused.
func (a *Agent) sign(ctx context.Context, l *load) error {
	kind, run := l.run()
	if run == nil || l.proof.refused != "" || l.status.Phase.IsNew() {
		return nil
	}
	key, err := a.Keys.Of(ctx, kind, run.UID)
	if err == nil {
		err = key.SignStatus(l.Object)
	}
	if err != nil {
		return fmt.Errorf("sign the status of %s %s: %w", l.name, l.GetName(), err)
	}
	return nil
}

// proofs caches the proofs of loads, until the loads change. It is safe for concurrent use.
type proofs struct {
	mu    sync.Mutex
	known map[types.UID]proven
}

type proven struct {
	version string
	proof   proof
}

// maxProofs is the maximum number of cached proofs. When it is reached, the cache is emptied.
const maxProofs = 10000

func (p *proofs) of(l *load) (proof, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[l.GetUID()]
	return known.proof, known.version != "" && known.version == l.GetResourceVersion()
}

func (p *proofs) note(l *load) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxProofs {
		p.known = map[types.UID]proven{}
	}
	p.known[l.GetUID()] = proven{l.GetResourceVersion(), l.proof}
}
