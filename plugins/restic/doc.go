// Package restic is the data mover cleat.dev/restic: it keeps snapshots of volumes in repositories of restic, by the
// restic program as it is (0.14 or newer, which is not part of this project). It is a plugin of its own,
// cmd/cleat-restic.
//
// A repository is at the path that the host names, "restic/NAMESPACE" below the prefix of a location, where Velero up
// to 1.18 has it, with the same password: either restores what the other has stored. A location is in S3 (cleat.dev/s3,
// velero.io/aws, or another provider with config.s3Url) or a directory (cleat.dev/file). Repositories of Kopia are
// recognised and refused. restic cannot ask S3 for encryption (serverSideEncryption, kmsKeyId); it encrypts by itself.
//
// Start reading at mover.go. A call opens a session (session.go): it first looks at the files of the repository without
// restic (place.go, objects.go), so that a missing bucket, server or repository is reported at once. Then commands run
// (internal/program); one that meets a lock waits for it (locks.go), and the error of one that fails is explained
// (failure.go). backup.go, restore.go, device.go and upkeep.go have the calls.
//
// # Locks
//
// restic locks a repository for a backup or restore, exclusively for forget, prune and check. A command that meets a
// lock waits for up to lockWait of the config until the lock is removed, and then fails as unavailable. A lock is
// stale, and removed, if restic has not refreshed it for 30 minutes, or if the lock names the host of the mover and a
// process that does not exist there: the rule of "restic unlock". So each mover needs a host name of its own; a pod has
// one unless it uses the network of its node.
//
// # Secrets
//
// The password reaches restic through a named pipe. Keys of S3 stay in the file that the host names. Neither is ever in
// an argument, in the environment, on disk or in a log.
//
// The package may import framework and the object stores cleat.dev/s3 and cleat.dev/file.
package restic
