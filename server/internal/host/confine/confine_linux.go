package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody is the user and the group of confined processes that root starts. If another user starts them, it is the user
// that they see themselves run as.
const nobody = 65534

// These limits hold for each confined process.
const (
	mostSeconds   = 120      // of CPU
	mostFileBytes = 64 << 20 // of one temporary file; of all of them, where they are in a file system of their own
	mostMemory    = 2 << 30
	mostProcesses = 4096 // of the user, threads included
)

// self returns a path of this program that another user can run as well.
func self() string { return "/proc/self/exe" }

// giveAway lets the user of confined processes write to the directory for temporary files.
func (s *state) giveAway(temp string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return asOther(os.Chown(temp, nobody, nobody))
}

// asOther explains an error of a root that cannot become another user.
func asOther(err error) error {
	if err != nil {
		return fmt.Errorf("root must not run programs that nobody trusts yet, and cannot become user %d: %w; call the "+
			"command as another user", nobody, err)
	}
	return nil
}

// isolate starts a command in a session of its own, which has no terminal, and in namespaces. A user who is not root
// gets rights in them from a namespace of users.
func (s *state) isolate(cmd *exec.Cmd) {
	attributes := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.SysProcAttr = attributes
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if !s.Isolated {
		return
	}
	attributes.Cloneflags = unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if os.Getuid() == 0 {
		return
	}
	attributes.Cloneflags |= unix.CLONE_NEWUSER
	attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}}
	attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
}

// enter is the first stage. It returns only errors.
func (s *state) enter() error {
	runtime.LockOSThread() // rights belong to threads; this one runs the program anew
	if err := s.limit(); err != nil {
		return err
	}
	freshProc := false
	if s.Isolated {
		if err := startLoopback(); err != nil {
			s.note("the kernel refuses a loopback interface, so programs that listen on TCP do not work: %v", err)
		}
		if err := newRoot(s.Files, s.Temp); err != nil {
			s.note("the kernel refuses a root directory of their own to the programs: %v", err)
		} else {
			s.Files, s.Temp, freshProc = "/plugins", "/tmp", true
		}
	}
	rules, err := newRules(s, freshProc)
	if err != nil {
		s.note("the kernel has no Landlock, so the programs could read what everybody can read: %v", err)
	}
	if err := dropRights(); err != nil {
		return err
	}
	if rules >= 0 {
		if err := restrict(rules); err != nil {
			s.note("the kernel refuses Landlock, so the programs could read what everybody can read: %v", err)
		}
	}
	for _, dir := range []string{s.Temp, s.Files} {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("user %d, who is to run the programs, has no access to %s: %w; let others traverse the "+
				"directories above it, or call the command as another user than root",
				os.Getuid(), dir, err)
		}
	}
	if err := os.Chdir(s.Temp); err != nil {
		return err
	}
	s.Entered = true
	environment, err := s.environment()
	if err != nil {
		return err
	}
	return syscall.Exec(self(), os.Args, environment)
}

// limit bounds what each process may use from now on.
func (s *state) limit() error {
	limits := map[int]uint64{
		unix.RLIMIT_CPU: mostSeconds, unix.RLIMIT_FSIZE: uint64(mostFileBytes + s.Largest), unix.RLIMIT_DATA: mostMemory,
		unix.RLIMIT_CORE: 0}
	if s.Isolated { // elsewhere, all processes of the user count
		limits[unix.RLIMIT_NPROC] = mostProcesses
	}
	for resource, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return err
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set limit %d: %w", resource, err)
		}
	}
	return nil
}

// dropRights makes root nobody, and takes the capabilities from any other user. No program that is run later has more
// rights.
func dropRights() error {
	if os.Getuid() == 0 {
		if err := asOther(errors.Join(unix.Setgroups(nil), unix.Setresgid(nobody, nobody, nobody),
			unix.Setresuid(nobody, nobody, nobody))); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil &&
		!errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("clear the ambient capabilities: %w", err)
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("clear the capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	return nil
}

// startLoopback starts the only interface of a new network namespace.
func startLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback)
}
