package library

import (
	"fmt"
	"runtime"

	"github.com/pkg/errors"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// toStatus converts an error to a status with code Unknown and the error's stack.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, made := status.FromError(err); made {
		return err
	}
	st := status.New(codes.Unknown, err.Error())
	traced, ok := err.(interface{ StackTrace() errors.StackTrace })
	if !ok {
		return st.Err()
	}
	stack := &Stack{}
	for _, frame := range traced.StackTrace() {
		function := runtime.FuncForPC(uintptr(frame) - 1)
		file, line := function.FileLine(uintptr(frame) - 1)
		stack.Frames = append(stack.Frames, &StackFrame{File: file, Line: int32(line), Function: function.Name()})
	}
	detailed, err := st.WithDetails(stack)
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

// recoverTo sets err to a status if there is a panic.
func recoverTo(err *error) {
	if value := recover(); value != nil {
		*err = status.Error(codes.Aborted, fmt.Sprintf("plugin panicked: %v", value))
	}
}
