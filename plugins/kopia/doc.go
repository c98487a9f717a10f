// Package kopia is the data mover cleat.dev/kopia: it keeps snapshots of volumes in repositories of kopia, as Velero
// from 1.12 on does. Velero 1.18.3 restores and continues what the mover has stored, and the other way round. It is a
// plugin of its own, cmd/cleat-kopia, in a module of its own.
//
// A repository is at the path that the host names, "kopia/NAMESPACE" below the prefix of a location, where Velero has
// it, with the same password. A location is in S3 (cleat.dev/s3, velero.io/aws, or another provider with config.s3Url)
// or a directory (cleat.dev/file).
//
// Start reading at mover.go. A call opens a session (session.go): it first looks at the files of the repository
// (place.go), so that a missing bucket, server or repository is reported at once, and then opens it. It stays open for
// some time after a call (kept.go). backup.go, restore.go and upkeep.go have the calls; failure.go explains errors.
// internal/repository drives kopia, internal/volume reads and writes volumes, internal/storage has the blobs.
//
// # What a snapshot does not have
//
// Extended attributes, hard links, FIFOs, sockets and devices: each of them is a warning of the backup. A file is
// unchanged if its size, time of modification, mode and owner are, as for Velero.
//
// # Secrets
//
// The password and the keys of S3 are in memory only. The keys are read again when their file changes.
//
// The package may import framework and the object stores cleat.dev/s3 and cleat.dev/file.
package kopia
