// Package confine runs programs that nobody trusts yet, with few rights: those of a plugin image, before somebody has
// decided that a server may run them.
//
// Output starts a command of this program again. That command calls Enter, which gives up the process's rights
// (confine_linux.go), and then starts the untrusted programs, whose rights cannot be more. What the kernel allows is
// used: namespaces without network, without other processes and with a root directory that has system directories only
// (root_linux.go), and Landlock, which works where namespaces are forbidden (landlock_linux.go). What it refuses is in
// the notes. The user, the environment and the limits do not depend on the kernel.
//
// It imports nothing of this module. Start reading at confine.go.
package confine
