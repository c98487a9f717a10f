package controllertest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Refused labels a backup so that RefuseUpdates applies to it.
func Refused(b *velerov1.Backup) { b.Labels = map[string]string{"refuse": "yes"} }

// RefuseUpdates makes the API server refuse all changes of the labelled Backups of the namespace, until the returned
// function is called.
func (c *Cluster) RefuseUpdates(t *testing.T) (stop func()) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse-" + c.Namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule: admissionv1.Rule{APIGroups: []string{"velero.io"}, APIVersions: []string{"v1"},
						Resources: []string{"backups"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: "!(has(object.metadata.labels) && 'refuse' in object.metadata.labels)",
				Message:    "this one is not to be touched",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.Namespace}},
			},
		},
	}
	require.NoError(t, c.Create(t.Context(), policy))
	require.NoError(t, c.Create(t.Context(), binding))
	probe := NewBackup("probe", InPhase(velerov1.BackupPhaseCompleted), Refused)
	c.Add(t, probe)
	require.Eventually(t, func() bool { // the policy takes effect after a while
		err := c.Patch(t.Context(), probe.DeepCopy(), client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"a":"b"}}}`)), client.DryRunAll)
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	}, 10*time.Minute, 50*time.Millisecond)
	require.NoError(t, c.Delete(t.Context(), probe))
	return sync.OnceFunc(func() {
		require.NoError(t, c.Delete(t.Context(), binding))
		require.NoError(t, c.Delete(t.Context(), policy))
	})
}
