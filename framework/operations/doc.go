// Package operations runs work that goes on after the call of an action has returned, and keeps its state. It serves
// AsyncBackupItemAction and AsyncRestoreItemAction, and version 2 of BackupItemAction and RestoreItemAction. The state
// of an operation is stored where the next process of the plugin finds it, so that an operation is started once,
// however often the host requests it, and every process of the plugin can report its progress.
//
// A Runner does the work inside the plugin's process. The author writes a function; the runner calls it in a goroutine
// for each operation, reports its progress, cancels it, and after a restart of the plugin calls it again or reports the
// operation as failed, as the author chooses:
//
//	func newMover(_ context.Context, setup *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
//		dir, err := setup.StateDir()
//		if err != nil {
//			return nil, err
//		}
//		store, err := operations.OpenDir(dir)
//		if err != nil {
//			return nil, err
//		}
//		return &mover{operations.NewRunner(setup.Name(), store, move, operations.WithResume())}, nil
//	}
//
//	func (m *mover) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
//		id, err := m.runner.Start(ctx, input.Key, volume{Namespace: input.Item.GetNamespace(), Name: input.Item.GetName()})
//		if err != nil {
//			return nil, err
//		}
//		return abiav1.NewStartOutput(nil).WithOperation(id), nil
//	}
//
//	func move(ctx context.Context, v volume, run *operations.Run) error {
//		source, target, size, err := open(ctx, v)
//		if err != nil {
//			return err
//		}
//		run.Log().Info("copying", "namespace", v.Namespace, "name", v.Name)
//		_, err = io.Copy(run.Writer(target, size), source) // reports its progress, and ends when ctx does
//		return errors.Join(err, target.Close())
//	}
//
// The action's methods Progress and Cancel call those of the runner. Kinds whose input has no key make one with Key. An
// action whose work is done by a controller needs no runner: it creates a custom resource whose name is the ID of its
// key, and reads the progress from the resource's status.
//
// A Dir keeps operations as files, for processes that share a directory. The directory has to outlive them: in a pod it
// is on a volume. Where there is no such directory, the author implements Store on custom resources or config maps, and
// tests it with package storetest.
//
// The package imports the framework and the logger, and nothing of the server. Start reading at operation.go; store.go
// has the contract of stores, dir.go and claim.go implement it, runner.go and work.go run the work.
package operations
