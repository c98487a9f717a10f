// Package repositories has repositories maintained, as often as their BackupRepositories say, and opens again those
// that are NotReady.
//
// # State
//
// The maintenance of a repository is a job, which is claimed, begun and recorded in this order. The claim is an
// annotation of the BackupRepository (run.Maintenance). It has the name of the job and is written on the condition that
// nobody else has changed the BackupRepository. So the job is created once, by whatever server leads then, and a server
// that finds a claim goes on with it: the job runs, has ended, or has yet to be created. The write that records the
// result removes the claim.
//
// The jobs of a repository have the label that those of Velero have. A job that runs is waited for, whoever has created
// it, and a job that has ended is recorded.
//
// # Loads
//
// Nothing else may work with a repository while a mover with the role RoleMaintainsAlone maintains it. The claim then
// says so. The node agents read it after they have written that a load is InProgress and before its data is moved, and
// write to the status of the load that it waits. The controller reads the loads after it has written the claim, and
// begins when none of them is moved. Whatever the order is, one of both sees the other (repository.AwaitMaintenance).
// Neither side waits for ever: the claim is given up after Controller.Patience, and the next attempt follows later. A
// claim that no server renews is ignored.
//
// The package imports run, the settings of maintenance, and the API types. Start reading at Controller.step.
package repositories
