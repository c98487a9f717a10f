// Package confine runs untrusted programs with few rights: the programs of a plugin image, before an operator allows a
// server to run them.
//
// Output starts a command of this program again. That command calls Enter, which gives up the process's rights
// (confine_linux.go), and then starts the untrusted programs, which cannot get more rights. As far as the kernel allows
// it, they run in namespaces without network, without other processes and with a root directory that has system
// directories only (root_linux.go), and under Landlock, which works where namespaces are forbidden (landlock_linux.go). The
// notes list what the kernel refuses. The user, the environment and the limits do not depend on the kernel.
//
// It imports nothing of this module. Start reading at confine.go.
package confine
