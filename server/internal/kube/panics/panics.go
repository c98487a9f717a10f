// Package panics turns a panic into an error of one object, so that a bug ends the work on the object and not the
// server. Every goroutine that works on objects of users uses it. It may import hclog.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
)

// Err is the error of a panic. Another attempt would most likely meet it again.
var Err = errors.New("panic in the server")

// Catch calls work and returns a panic in it as an error, which it also logs with the stack.
func Catch(log hclog.Logger, work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic; this is a bug in the server", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", Err, p)
		}
	}()
	return work()
}
