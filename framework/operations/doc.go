// Package operations is for actions whose work goes on after their call has ended: AsyncBackupItemAction and
// AsyncRestoreItemAction, and version 2 of BackupItemAction and RestoreItemAction. It keeps what was started where the
// next process of the plugin finds it, so that an operation begins once however often it is asked for, and is answered for
// whichever process is asked.
//
// For work that is done inside the plugin's process there is Runner. The author writes a function; the runner gives it a
// goroutine per operation, tells how far it is, cancels it, and after a restart has it done again or reports it as failed,
// as the author chooses:
//
//	func newMover(log hclog.Logger) (abiav1.AsyncBackupItemAction, error) {
//		store, err := operations.OpenDir(operations.DefaultDir("example.io/mover"))
//		if err != nil {
//			return nil, err
//		}
//		return &mover{operations.NewRunner("example.io/mover", store, log, move, operations.ResumeAfterRestart())}, nil
//	}
//
//	func (m *mover) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
//		id, err := m.runner.Begin(ctx, input.Key, volume{Namespace: input.Item.GetNamespace(), Name: input.Item.GetName()})
//		if err != nil {
//			return nil, err
//		}
//		return abiav1.Started(id), nil
//	}
//
//	func (m *mover) Progress(ctx context.Context, id string, _ *velerov1.Backup) (framework.OperationProgress, error) {
//		return m.runner.Progress(ctx, id)
//	}
//
//	func (m *mover) Cancel(ctx context.Context, id string, _ *velerov1.Backup) (bool, error) {
//		return m.runner.Cancel(ctx, id)
//	}
//
//	func move(ctx context.Context, v volume, run *operations.Run) error {
//		// as long as it takes; run.Report tells how far it is
//	}
//
// Kinds that have no key in their input make one with Key. An action whose work is done by a controller needs no runner:
// it creates a custom resource under the ID of its key, and reads how far it is from its status.
//
// A Dir keeps operations as files, for processes that see one directory. It has to outlive them: in a pod that is a volume.
// Where there is none, Store has five methods that an author implements on custom resources or config maps, and package
// storetest tests.
//
// Start reading at operation.go; store.go is the contract of stores and dir.go the one here; runner.go runs work.
package operations
