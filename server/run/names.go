package run

// Names of the controllers, as in --disable-controllers.
const (
	BackupController            = "backup"
	BackupQueueController       = "backup-queue"
	BackupOperationsController  = "backup-operations"
	BackupFinalizerController   = "backup-finalizer"
	BackupDeletionController    = "backup-deletion"
	RestoreController           = "restore"
	RestoreOperationsController = "restore-operations"
	RestoreFinalizerController  = "restore-finalizer"
	ScheduleController          = "schedule"
	DownloadRequestController   = "download-request"
	ServerStatusController      = "server-status-request"
	RecoveryController          = "recovery" // at the start of a server without the controllers of backups or restores
)
