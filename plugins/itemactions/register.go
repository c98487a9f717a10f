package itemactions

import (
	"cmp"
	"context"
	"os"

	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/plugins/itemactions/apiservices"
	"github.com/cleat-dev/cleat/plugins/itemactions/claims"
	"github.com/cleat-dev/cleat/plugins/itemactions/crds"
	"github.com/cleat-dev/cleat/plugins/itemactions/csi"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/cluster"
	"github.com/cleat-dev/cleat/plugins/itemactions/jobs"
	"github.com/cleat-dev/cleat/plugins/itemactions/pods"
	"github.com/cleat-dev/cleat/plugins/itemactions/podvolumes"
	"github.com/cleat-dev/cleat/plugins/itemactions/references"
	"github.com/cleat-dev/cleat/plugins/itemactions/replacements"
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

// WithNamespace sets the namespace of the server, which holds the ConfigMaps that configure actions. namespace is
// called when they are read. The default is the value of VELERO_NAMESPACE, or else velero.
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
	volumes := podvolumes.Deps{Objects: asked.Objects, Namespace: o.namespace, Settings: settings}
	return []framework.Registration{
		abiav1.Register(podvolumes.BackupName, func(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
			return podvolumes.NewBackup(volumes)
		}, framework.WithRoles(framework.RolePodVolumes)),
		ariav1.Register(podvolumes.RestoreName, func(context.Context, *framework.Setup) (ariav1.AsyncRestoreItemAction,
			error) {
			return podvolumes.NewRestore(volumes)
		}, framework.WithRoles(framework.RolePodVolumeRestores)),

		biav1.Register("cleat.dev/dataupload", csi.NewStoredUploads, framework.WithRoles(framework.RoleCSI)),
		biav1.Register("velero.io/crd-remap-version", func(_ context.Context, setup *framework.Setup) (biav1.BackupItemAction,
			error) {
			return crds.NewBackup(setup, asked.LegacyDefinition)
		}, framework.WithRoles(framework.RoleDryRun)),
		biav1.Register("velero.io/pod", pods.NewBackup, framework.WithRoles(framework.RoleDryRun)),
		biav1.Register("velero.io/pv", claims.NewBackup, framework.WithRoles(framework.RoleDryRun)),
		biav1.Register("velero.io/service-account", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return serviceaccounts.NewBackup(asked.ClusterRoleBindings)
		}, framework.WithRoles(framework.RoleDryRun)),

		biav2.Register("velero.io/csi-pvc-backupper", func(context.Context, *framework.Setup) (biav2.BackupItemAction,
			error) {
			return csi.NewClaims(asked)
		}, framework.WithRoles(framework.RoleCSI, framework.RoleClaimSnapshots)),
		biav2.Register("velero.io/csi-volumesnapshot-backupper",
			func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
				return csi.NewVolumeSnapshots(asked)
			}, framework.WithRoles(framework.RoleCSI, framework.RoleSnapshotObjects)),
		biav2.Register("velero.io/csi-volumesnapshotclass-backupper", csi.NewClasses, framework.WithRoles(framework.RoleCSI)),
		biav2.Register("velero.io/csi-volumesnapshotcontent-backupper", csi.NewContents,
			framework.WithRoles(framework.RoleCSI)),

		ibav1.Register("velero.io/pod", pods.NewBlock, framework.WithRoles(framework.RoleDryRun)),
		ibav1.Register("velero.io/pvc", func(context.Context, *framework.Setup) (ibav1.ItemBlockAction, error) {
			return claims.NewBlock(asked)
		}, framework.WithRoles(framework.RoleDryRun)),
		ibav1.Register("velero.io/service-account", func(context.Context, *framework.Setup) (ibav1.ItemBlockAction, error) {
			return serviceaccounts.NewBlock(asked.ClusterRoleBindings)
		}, framework.WithRoles(framework.RoleDryRun)),

		riav1.Register("cleat.dev/mapped-references", references.NewRestore, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/add-pvc-from-pod", pods.NewAddClaims, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/admission-webhook-configuration", webhooks.NewRestore,
			framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/apiservice", apiservices.NewRestore, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register(replacements.ImageName, func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return replacements.NewImage(settings)
		}, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register(replacements.StorageClassName, func(context.Context, *framework.Setup) (riav1.RestoreItemAction,
			error) {
			return replacements.NewStorageClass(settings, asked.StorageClassExists)
		}, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/cluster-role-bindings", references.NewClusterRoleBindings,
			framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/crd-preserve-fields", crds.NewRestore, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/dataupload", func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return csi.NewRestoredUploads(asked)
		}, framework.WithRoles(framework.RoleCSI, framework.RoleDryRun)),
		riav1.Register("velero.io/init-restore-hook", pods.NewInitHooks, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/job", jobs.NewRestore, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/pod", pods.NewRestore, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/pvc", claims.NewRestore, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/role-bindings", references.NewRoleBindings, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/secret", func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return secrets.NewRestore(asked.ServiceAccountExists)
		}, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/service", services.NewRestore, framework.WithRoles(framework.RoleDryRun)),
		riav1.Register("velero.io/service-account", serviceaccounts.NewRestore, framework.WithRoles(framework.RoleDryRun)),

		riav2.Register("velero.io/csi-pvc-restorer", func(context.Context, *framework.Setup) (riav2.RestoreItemAction,
			error) {
			return csi.NewRestoredClaims(asked)
		}, framework.WithRoles(framework.RoleCSI, framework.RoleDryRun, framework.RoleClaimRestores)),
		riav2.Register("velero.io/csi-volumesnapshot-restorer",
			func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
				return csi.NewRestoredSnapshots(asked)
			}, framework.WithRoles(framework.RoleCSI, framework.RoleDryRun)),
		riav2.Register("velero.io/csi-volumesnapshotclass-restorer", csi.NewRestoredClasses,
			framework.WithRoles(framework.RoleCSI, framework.RoleDryRun)),
		riav2.Register("velero.io/csi-volumesnapshotcontent-restorer",
			func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
				return csi.NewRestoredContents(asked)
			}, framework.WithRoles(framework.RoleCSI, framework.RoleDryRun)),

		diav1.Register("velero.io/csi-volumesnapshotcontent-delete",
			func(context.Context, *framework.Setup) (diav1.DeleteItemAction, error) {
				return csi.NewDeletedContents(asked)
			}, framework.WithRoles(framework.RoleCSI)),
	}
}
