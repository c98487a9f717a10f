// Package volume reads and writes volumes as trees of kopia.
//
// kopia's own packages for that drop files that look like its placeholders (*.kopia-entry), follow symbolic links, and
// leave out in silence what they cannot keep. Start reading at source.go, which a backup reads; losses.go collects what
// a snapshot cannot have, target.go is what a restore writes, and device.go has both for block devices.
package volume
