package glue

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// maxFrames is the maximum number of stack frames that are recorded and sent.
const maxFrames = 32

// Errorf is like fmt.Errorf and records the caller of its caller.
func Errorf(format string, args ...any) error {
	return &locatedError{error: fmt.Errorf(format, args...), callers: callers(1)}
}

// WithStack returns err with the caller of its caller recorded; nil stays nil.
func WithStack(err error) error {
	if err == nil {
		return nil
	}
	return &locatedError{error: err, callers: callers(1)}
}

// locatedError is an error with the stack of its creation.
type locatedError struct {
	error
	callers []uintptr // of runtime.Callers
}

func (e *locatedError) Unwrap() error { return e.error }

// callers returns the stack without its caller and skip functions above that.
func callers(skip int) []uintptr {
	pcs := make([]uintptr, maxFrames)
	return pcs[:runtime.Callers(3+skip, pcs)]
}

// frames returns the stack of the innermost error in err's chain that has one.
func frames(err error) []*shared.StackFrame {
	var innermost []uintptr
	for ; err != nil; err = errors.Unwrap(err) {
		if pcs := callersOf(err); len(pcs) > 0 {
			innermost = pcs
		}
	}
	return resolve(innermost)
}

// callersOf returns the stack of err itself. It supports our own errors and those of github.com/pkg/errors, which
// plugins for Velero use. It does not link that module: their method StackTrace returns a slice of program counters.
func callersOf(err error) []uintptr {
	if located, ok := err.(*locatedError); ok { //nolint:errorlint // the chain is walked by the caller
		return located.callers
	}
	method := reflect.ValueOf(err).MethodByName("StackTrace")
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return nil
	}
	trace := method.Type().Out(0)
	if trace.Kind() != reflect.Slice || trace.Elem().Kind() != reflect.Uintptr {
		return nil
	}
	var pcs []uintptr
	for _, pc := range method.Call(nil)[0].Seq2() {
		pcs = append(pcs, uintptr(pc.Uint()))
	}
	return pcs[:min(len(pcs), maxFrames)]
}

// panicFrames returns the stack from the panicking function on. It must be called while the panic is recovered.
func panicFrames() []*shared.StackFrame {
	pcs := make([]uintptr, 2*maxFrames)
	all := resolve(pcs[:runtime.Callers(1, pcs)])
	for i, frame := range all {
		if frame.GetFunction() != "runtime.gopanic" {
			continue
		}
		all = all[i+1:]
		break
	}
	for len(all) > 0 && strings.HasPrefix(all[0].GetFunction(), "runtime.") {
		all = all[1:] // nil dereferences and the like panic inside the runtime
	}
	return all[:min(len(all), maxFrames)]
}

func resolve(pcs []uintptr) []*shared.StackFrame {
	if len(pcs) == 0 {
		return nil
	}
	var resolved []*shared.StackFrame
	iterator := runtime.CallersFrames(pcs)
	for {
		frame, more := iterator.Next()
		if frame.Function != "" || frame.File != "" {
			resolved = append(resolved, &shared.StackFrame{
				File: frame.File, Line: int32(min(frame.Line, 1<<31-1)), Function: frame.Function,
			})
		}
		if !more {
			return resolved
		}
	}
}
