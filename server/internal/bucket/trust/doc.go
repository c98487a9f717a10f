// Package trust has the checksums of a backup, which are stored beside it, and their signature. The checksums name each
// file with its size and SHA-256 sum, the snapshot of each volume, and the backup itself, so that the files of another
// one, or of an older one under a new name, do not pass for it. A signature covers the stored bytes.
//
// The package may import store, the API types, foreign and the libraries of sigstore. Start reading at document.go,
// then signature.go and ring.go.
package trust
