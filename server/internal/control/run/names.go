package run

// Names of the controllers, as in --disable-controllers.
const (
	BackupController            = "backup"
	BackupQueueController       = "backup-queue"
	BackupOperationsController  = "backup-operations"
	BackupFinalizerController   = "backup-finalizer"
	BackupDeletionController    = "backup-deletion"
	BackupDryRunController      = "backup-dry-run"
	BackupHoldController        = "backup-hold"
	GarbageCollectionController = "gc"
	BackupSyncController        = "backup-sync"
	RestoreController           = "restore"
	RestoreOperationsController = "restore-operations"
	RestoreFinalizerController  = "restore-finalizer"
	RestoreDryRunController     = "restore-dry-run"
	RehearsalController         = "rehearsal"
	RehearsalRestoreController  = "rehearsal-restore"
	RehearsalScheduleController = "rehearsal-schedule"
	ScheduleController          = "schedule"
	VerificationController      = "verification"
	DownloadRequestController   = "download-request"
	ServerStatusController      = "server-status-request"
	UnknownFieldsController     = "unknown-fields"
	BackupRepositoryController  = "backup-repo"
	RecoveryController          = "recovery" // at the start of a server without the controllers of backups or restores
)
