// Package v1 is the kind DataMover in its version 1: it moves the data of volumes into repositories and back. It runs
// in this project's node agent only; stock Velero does not see it.
//
// # What a mover sees
//
// In a node agent, a process serves one call at a time, in an enclosure: a mount namespace with nothing of the node but
//
//   - the volume of the call at Volume.Path, for a Backup to read, and for a Restore to write. It is there during the
//     call only; a process that has a file of it open after the call is ended. The kernel follows no symbolic link in
//     it, so that a pod that swaps directories for links while a mover goes by their paths leads it
//     nowhere: the mover gets ELOOP. No program in the volume can be run and no device in it can be opened.
//   - the repository of the call, if its location is a directory (cleat.dev/file), and nothing else of that location
//   - the state directory (Setup.StateDir), of which there is one for each repository. It is for caches: it can be
//     written and outlives the call.
//   - the executable at its path, and the files that came with it in the directory .NAME beside it; other plugins are
//     not there
//   - /usr, /bin, /lib and the like, certificates, and what it takes to resolve names, from the image of the agent, to
//     read
//   - what the configuration of the mover, PATH, and the variables of credentials (AWS_SHARED_CREDENTIALS_FILE and
//     others) name by absolute paths, to read. The directory at the key cacheDirectory of the configuration can be
//     written, in a part for the repository.
//   - /tmp, private and removed with the process, and /dev/null, zero, full, random and urandom
//
// There is no /proc, no token of a service account and no other volume. The environment is that of all plugins, but for
// TMPDIR and the state directory. The network is that of the agent, without restrictions. The process is root with the
// capabilities that files of all users take (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, MKNOD, SETFCAP, as
// far as the agent has them), and can gain no others. After a call that has worked, it gets other calls on the same
// repository, which it may keep open meanwhile. It ends when it had none for two minutes, when another repository needs
// its place, when it holds more than 96 MiB of memory after a call, or when a call has failed; after a cancellation it
// has 30 seconds to clean up. A server, which removes snapshots, has no volumes and calls movers as other plugins.
//
// Start reading at mover.go, the author's interface; volume.go and repository.go say what its calls are about, and
// rules.go what an output must keep. server.go and codec.go put it on the wire, reporter.go sends its progress.
package v1
