package itemactions

import (
	"cmp"
	"context"
	"os"

	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/apiservices"
	"github.com/cleat-dev/cleat/plugins/itemactions/claims"
	"github.com/cleat-dev/cleat/plugins/itemactions/crds"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/cluster"
	"github.com/cleat-dev/cleat/plugins/itemactions/jobs"
	"github.com/cleat-dev/cleat/plugins/itemactions/pods"
	"github.com/cleat-dev/cleat/plugins/itemactions/replacements"
	"github.com/cleat-dev/cleat/plugins/itemactions/rolebindings"
	"github.com/cleat-dev/cleat/plugins/itemactions/secrets"
	"github.com/cleat-dev/cleat/plugins/itemactions/serviceaccounts"
	"github.com/cleat-dev/cleat/plugins/itemactions/services"
	"github.com/cleat-dev/cleat/plugins/itemactions/webhooks"
)

// Option changes how the actions run.
type Option func(*options)

type options struct {
	config    func() (*rest.Config, error)
	namespace func() (string, error)
}

// WithConfig sets the cluster that the actions query and that holds their ConfigMaps. config is called at
// the first query, and again until it succeeds. The default is the cluster of KUBECONFIG, of the user's own file, or of
// the pod's service account.
func WithConfig(config func() (*rest.Config, error)) Option {
	return func(o *options) { o.config = config }
}

// WithNamespace sets the namespace of the server, which holds the ConfigMaps that configure actions. namespace is called
// when they are read. The default is that of VELERO_NAMESPACE, or else velero.
func WithNamespace(namespace func() (string, error)) Option {
	return func(o *options) { o.namespace = namespace }
}

func namespaceFromEnvironment() (string, error) {
	return cmp.Or(os.Getenv("VELERO_NAMESPACE"), "velero"), nil
}

// Register returns all built-in actions in the order in which they run, which is by name, as in Velero.
func Register(opts ...Option) []framework.Registration {
	o := options{config: cluster.FromEnvironment, namespace: namespaceFromEnvironment}
	for _, opt := range opts {
		opt(&o)
	}
	asked := cluster.New(o.config)
	settings := func(ctx context.Context, action string) (map[string]string, error) {
		namespace, err := o.namespace()
		if err != nil {
			return nil, err
		}
		return asked.Settings(ctx, namespace, action)
	}
	return []framework.Registration{
		biav1.Register("velero.io/crd-remap-version", func(_ context.Context, setup *framework.Setup) (biav1.BackupItemAction, error) {
			return crds.NewBackup(setup, asked.LegacyDefinition)
		}),
		biav1.Register("velero.io/pod", pods.NewBackup),
		biav1.Register("velero.io/pv", claims.NewBackup),
		biav1.Register("velero.io/service-account", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return serviceaccounts.NewBackup(asked.ClusterRoleBindings)
		}),

		riav1.Register("velero.io/add-pvc-from-pod", pods.NewAddClaims),
		riav1.Register("velero.io/admission-webhook-configuration", webhooks.NewRestore),
		riav1.Register("velero.io/apiservice", apiservices.NewRestore),
		riav1.Register(replacements.ImageName, func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return replacements.NewImage(settings)
		}),
		riav1.Register(replacements.StorageClassName, func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return replacements.NewStorageClass(settings, asked.StorageClassExists)
		}),
		riav1.Register("velero.io/cluster-role-bindings", rolebindings.NewCluster),
		riav1.Register("velero.io/crd-preserve-fields", crds.NewRestore),
		riav1.Register("velero.io/init-restore-hook", pods.NewInitHooks),
		riav1.Register("velero.io/job", jobs.NewRestore),
		riav1.Register("velero.io/pod", pods.NewRestore),
		riav1.Register("velero.io/pvc", claims.NewRestore),
		riav1.Register("velero.io/role-bindings", rolebindings.NewNamespaced),
		riav1.Register("velero.io/secret", func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return secrets.NewRestore(asked.ServiceAccountExists)
		}),
		riav1.Register("velero.io/service", services.NewRestore),
		riav1.Register("velero.io/service-account", serviceaccounts.NewRestore),
	}
}
