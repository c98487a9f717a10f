// Package conformance tests plugins over their wire against the contracts of their kinds, as documented in the protos
// and in framework. Authors run it in their tests, and operators before they install a plugin.
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, conformance.Binary("./my-plugin"))
//	}
//
//	cleat plugin test ./my-plugin
//
// The plugin announces what is tested: the process as a whole, and each plugin by the rules of its kind and version.
// Breaking a rule of severity Must is a failure, breaking one of severity Should is a warning. A rule is skipped, with
// a reason, if it cannot be checked: for example because AppliesTo selects none of the sample items, a config is
// missing, or a policy admitted nothing. See WithItem, WithConfig, WithKubeconfig, WithSnapshot and WithVolume, and
// read in each report what was skipped.
//
// A test starts the plugin as the server does: with the server's flags, the environment of the test, as a server passes
// on its own, and an offer of mutual TLS. It kills the plugin and starts it again many times. The plugins of a binary
// are tested at the same time, each in a process of its own, and so are independent calls of a plugin whose calls take
// longer than a second; what measures or ends a process is checked at the end, one rule at a time. Actions are asked
// about items that do not exist, operations are started for them and cancelled, and an ObjectStore whose bucket is
// given is filled and emptied below "plugins/conformance/", in a folder that hosts expect at the top of a bucket. A
// DataMover makes repositories there, which stay.
//
// # Rules
//
//	process-handshake           must    Process
//	process-flags               must    Process
//	process-cookie              should  Process
//	process-health              must    Process
//	process-unknown-method      must    Process
//	list-answers                must    Process
//	list-not-empty              must    Process
//	list-kinds                  must    Process
//	list-order                  must    Process
//	list-once                   must    Process
//	list-names                  must    Process
//	list-command                should  Process
//	info-answers                must    Process
//	info-consistent             must    Process
//	info-schema                 must    Process
//	info-limits                 must    Process
//	info-roles                  must    Process
//	served                      must    any
//	unknown-name                must    any
//	action-applies-to           must    all actions
//	action-selector             must    all actions
//	action-item                 must    all actions
//	action-reply-item           must    all actions that answer with an item
//	action-reply-identifiers    must    all actions
//	action-resource-names       must    all actions
//	action-same-answer          should  BackupItemAction, BackupItemActionV2, RestoreItemAction, RestoreItemActionV2, ItemBlockAction
//	action-owner-bare           must    all actions
//	action-json-unknown         must    all actions
//	action-json-kept            should  all actions that answer with an item
//	action-wire-unknown         must    all actions
//	action-request-empty        must    all actions
//	action-request-garbage      must    all actions
//	action-large-item           must    all actions
//	action-large-request        must    all actions
//	action-concurrent           must    all actions
//	action-own-answer           must    all actions
//	action-runs-apart           must    all actions
//	action-cancelled            must    all actions
//	operation-id                must    all actions that start operations
//	operation-items             should  BackupItemActionV2, AsyncBackupItemAction
//	operation-progress          must    all actions that start operations
//	operation-progress-sane     should  all actions that start operations
//	operation-completed-stays   must    all actions that start operations
//	operation-cancel            must    all actions that start operations
//	operation-cancel-ends       must    all actions that start operations
//	operation-own               must    all actions that start operations
//	operation-progress-forward  should  all actions that start operations
//	operation-unknown           should  all actions that start operations
//	operation-unknown-harmless  must    all actions that start operations
//	operation-restart           must    all actions that start operations
//	start-again                 must    AsyncBackupItemAction, AsyncRestoreItemAction
//	start-again-restart         must    AsyncBackupItemAction, AsyncRestoreItemAction
//	start-other                 should  AsyncBackupItemAction, AsyncRestoreItemAction
//	delete-again                must    DeleteItemAction
//	ready-timeout               must    RestoreItemActionV2
//	ready-answers               must    RestoreItemActionV2
//	store-before-init           must    ObjectStore
//	store-config-missing        must    ObjectStore
//	store-config-unknown        should  ObjectStore
//	store-init                  must    ObjectStore
//	store-init-again            must    ObjectStore
//	store-round-trip            must    ObjectStore
//	store-empty-object          must    ObjectStore
//	store-large-object          must    ObjectStore
//	store-pieces                should  ObjectStore
//	store-replace               must    ObjectStore
//	store-exists                must    ObjectStore
//	store-get-missing           must    ObjectStore
//	store-delete-missing        should  ObjectStore
//	store-list                  must    ObjectStore
//	store-prefixes              must    ObjectStore
//	store-list-many             must    ObjectStore
//	store-odd-keys              must    ObjectStore
//	store-broken-upload         must    ObjectStore
//	store-early-close           must    ObjectStore
//	store-concurrent            must    ObjectStore
//	store-missing-bucket        should  ObjectStore
//	store-signed-url            must    ObjectStore
//	store-locks                 must    ObjectStore
//	store-hold                  must    ObjectStore
//	store-restart               must    ObjectStore
//	snapshotter-before-init     must    VolumeSnapshotter
//	snapshotter-config-missing  must    VolumeSnapshotter
//	snapshotter-config-unknown  should  VolumeSnapshotter
//	snapshotter-init            must    VolumeSnapshotter
//	snapshotter-foreign         must    VolumeSnapshotter
//	snapshotter-set-get         must    VolumeSnapshotter
//	snapshotter-json-kept       should  VolumeSnapshotter
//	snapshotter-garbage         must    VolumeSnapshotter
//	snapshotter-unknown-volume  must    VolumeSnapshotter
//	snapshotter-snapshot        must    VolumeSnapshotter
//	snapshotter-delete-again    should  VolumeSnapshotter
//	mover-create                must    DataMover
//	mover-missing               must    DataMover
//	mover-password              should  DataMover
//	mover-messages              must    DataMover
//	mover-round-trip            must    DataMover
//	mover-names                 must    DataMover
//	mover-replace               must    DataMover
//	mover-snapshots             must    DataMover
//	mover-parent-unknown        must    DataMover
//	mover-full                  must    DataMover
//	mover-again                 must    DataMover
//	mover-empty                 must    DataMover
//	mover-unknown-snapshot      must    DataMover
//	mover-forget                must    DataMover
//	mover-maintain              must    DataMover
//	mover-maintain-beside       must    DataMover
//	mover-settings              should  DataMover
//	mover-cancelled             must    DataMover
//	mover-concurrent            must    DataMover
//	mover-restart               must    DataMover
//	policy-config               must    QueueAdmission, LoadSoothing, ManifestWriter
//	policy-config-empty         must    QueueAdmission, LoadSoothing, ManifestWriter
//	policy-config-garbage       must    QueueAdmission, LoadSoothing, ManifestWriter
//	policy-wire-unknown         must    QueueAdmission, LoadSoothing, ManifestWriter
//	policy-pure                 must    QueueAdmission, LoadSoothing
//	policy-clock                must    QueueAdmission, LoadSoothing
//	policy-concurrent           must    QueueAdmission, LoadSoothing
//	queue-decides               must    QueueAdmission
//	queue-limit                 must    QueueAdmission
//	queue-complete              must    QueueAdmission
//	queue-waits                 must    QueueAdmission
//	queue-blockers              must    QueueAdmission
//	queue-recheck               must    QueueAdmission
//	queue-many                  must    QueueAdmission
//	queue-empty                 must    QueueAdmission
//	soothing-decides            must    LoadSoothing
//	soothing-reason             must    LoadSoothing
//	soothing-retry              must    LoadSoothing
//	soothing-empty              must    LoadSoothing
//	manifest-empty              must    ManifestWriter
//	manifest-items              must    ManifestWriter
//	manifest-names              must    ManifestWriter
//	manifest-content-first      must    ManifestWriter
//	manifest-reads-all          must    ManifestWriter
//	manifest-many               must    ManifestWriter
//	manifest-messages           must    ManifestWriter
//	manifest-garbage            must    ManifestWriter
//	manifest-concurrent         must    ManifestWriter
//	manifest-cancelled          must    ManifestWriter
//	leak-memory                 must    Process, ObjectStore, VolumeSnapshotter
//	leak-files                  must    Process, ObjectStore, VolumeSnapshotter
//	leak-children               must    Process, ObjectStore, VolumeSnapshotter
//	leak-goroutines             must    Process, ObjectStore, VolumeSnapshotter
//	process-shutdown            must    Process
//	process-sigterm             must    Process
//	process-children            must    Process
//	stdout-quiet                should  Process
//	stderr-json                 should  Process
//
// # Reading on
//
// The texts of the rules are those of Rules, which "cleat plugin test --rules" lists. Start reading at run.go, the run
// of a test. internal/rules has the rules, in a package for each family of kinds. internal/suite performs the checks:
// it keeps the processes of the plugin and gives each check a connection. internal/process runs the binary,
// internal/wire calls it, and internal/sample and internal/queue hold the items and queues that it is asked about. For
// every rule there is a plugin in testdata/defects that breaks it, and there are correct plugins that are unusual.
//
// The package may import framework, the protos, go-plugin, gRPC and a JSON Schema validator; neither versioning nor the
// server.
package conformance
