package serviceaccounts_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/serviceaccounts"
)

func binding(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	}
}

func subject(kind, namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: kind, Namespace: namespace, Name: name}
}

func listing(bindings ...*rbacv1.ClusterRoleBinding) serviceaccounts.ListBindings {
	return func(_ context.Context, visit func(*rbacv1.ClusterRoleBinding)) error {
		for _, b := range bindings {
			visit(b)
		}
		return nil
	}
}

const web = `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"shop","name":"web"}}`

func granted(resource, name string) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{Group: "rbac.authorization.k8s.io", Resource: resource, Name: name}
}

func TestServiceAccountAddsItsClusterRoles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		bindings []*rbacv1.ClusterRoleBinding
		want     []framework.ResourceIdentifier
	}{
		"no bindings": {},
		"others only": {bindings: []*rbacv1.ClusterRoleBinding{
			binding("a", "view"),
			binding("b", "view", subject("ServiceAccount", "other", "web"), subject("ServiceAccount", "shop", "other")),
			binding("c", "view", subject("User", "shop", "web"), subject("Group", "", "system:serviceaccounts")),
			binding("d", "view", subject("Group", "", "system:serviceaccounts:shop2"),
				subject("User", "", "system:serviceaccount:shop:webs"), subject("User", "", "system:serviceaccount:shop")),
		}},
		"as a user and by its group": {
			bindings: []*rbacv1.ClusterRoleBinding{
				binding("user", "edit", subject("User", "", "system:serviceaccount:shop:web")),
				binding("group", "view", subject("Group", "", "system:serviceaccounts:shop"),
					subject("ServiceAccount", "shop", "web")),
			},
			want: []framework.ResourceIdentifier{
				granted("clusterrolebindings", "group"), granted("clusterrolebindings", "user"), granted("clusterroles", "edit"),
				granted("clusterroles", "view"),
			},
		},
		"several, sorted, each once": {
			bindings: []*rbacv1.ClusterRoleBinding{
				binding("z", "view", subject("User", "", "ada"), subject("ServiceAccount", "shop", "web"),
					subject("ServiceAccount", "shop", "web")),
				binding("m", "edit", subject("ServiceAccount", "shop", "web")),
				binding("a", "view", subject("ServiceAccount", "shop", "web")),
			},
			want: []framework.ResourceIdentifier{
				granted("clusterrolebindings", "a"), granted("clusterrolebindings", "m"), granted("clusterrolebindings", "z"),
				granted("clusterroles", "edit"), granted("clusterroles", "view"),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action, err := serviceaccounts.NewBackup(listing(test.bindings...))
			require.NoError(t, err)
			actiontest.Backup{Item: web, Additional: test.want}.Run(t, action)
		})
	}
}

func execute(
	ctx context.Context, t *testing.T, action biav1.BackupItemAction, backup string,
) (*biav1.ExecuteOutput, error) {
	t.Helper()
	item := &unstructured.Unstructured{}
	require.NoError(t, item.UnmarshalJSON([]byte(web)))
	return action.Execute(ctx,
		&biav1.ExecuteInput{Item: item, Backup: &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: backup}}})
}

func TestBindingsAreListedOncePerBackup(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	action, err := serviceaccounts.NewBackup(func(_ context.Context, visit func(*rbacv1.ClusterRoleBinding)) error {
		n := lists.Add(1)
		visit(binding("b", fmt.Sprintf("role-%d", n), subject("ServiceAccount", "shop", "web")))
		return nil
	})
	require.NoError(t, err)
	for n := range 20 { // more than are kept
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				output, err := execute(t.Context(), t, action, fmt.Sprintf("backup-%d", n))
				if err != nil || len(output.AdditionalItems) != 2 || output.AdditionalItems[1].Name != fmt.Sprintf("role-%d", n+1) {
					t.Errorf("backup %d: %+v, %v", n, output, err)
				}
			})
		}
		calls.Wait()
	}
	require.EqualValues(t, 20, lists.Load())
}

func TestFailedListIsRetriedByNextItem(t *testing.T) {
	t.Parallel()
	down := true
	action, err := serviceaccounts.NewBackup(func(context.Context, func(*rbacv1.ClusterRoleBinding)) error {
		if down {
			return errors.New("the API server is away")
		}
		return nil
	})
	require.NoError(t, err)
	_, err = execute(t.Context(), t, action, "nightly")
	require.EqualError(t, err, "which cluster roles a service account has: the API server is away")
	down = false
	_, err = execute(t.Context(), t, action, "nightly")
	require.NoError(t, err)
}

func TestWaitForListEndsWithCall(t *testing.T) {
	t.Parallel()
	listing, release := make(chan struct{}), make(chan struct{})
	action, err := serviceaccounts.NewBackup(func(context.Context, func(*rbacv1.ClusterRoleBinding)) error {
		close(listing)
		<-release
		return nil
	})
	require.NoError(t, err)
	first := make(chan error)
	go func() {
		_, err := execute(t.Context(), t, action, "nightly")
		first <- err
	}()
	<-listing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = execute(ctx, t, action, "nightly")
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	require.NoError(t, <-first)
}
