package framework

import "github.com/cleat-dev/cleat/framework/internal/glue"

// Serve is the main function of a plugin: it serves regs to the host that started the process, and returns when the
// host ends it.
//
// Mistakes in regs (a malformed name, a name registered twice, nothing at all) end the process with status 1 and are
// reported on stderr, as is a program that a user starts by hand. Write nothing to stdout before Serve: the handshake
// is written there. From Serve on, os.Stdout and os.Stderr are go-plugin's pipes to the host, which cannot assign what
// they carry to a backup or restore: use Log and Setup.Logger.
func Serve(regs ...Registration) {
	all := make([]glue.Registration, 0, len(regs))
	for _, reg := range regs {
		all = append(all, glue.Registration(reg))
	}
	glue.Serve(all...)
}
