// Package trust has the checksums of a backup, which are stored beside it, and their signature. The checksums name each
// file with its size and SHA-256 sum, the snapshot of each volume, and the backup itself, so that the files of another
// one, or of an older one under a new name, do not pass for it. A signature covers the stored bytes. The report of a
// rehearsal is signed with the same key, in one file with its signature.
//
// The package may import store, rehearsal, the API types, foreign and the libraries of sigstore. Start reading at
// document.go, then signature.go, ring.go and report.go.
package trust
