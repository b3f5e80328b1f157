package border

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// Failure builds the error text that Python splits again.
func Failure(kind, message string) error {
	return errors.New(Clean(kind + "\x1f" + message))
}

// Clean makes text safe for a C string: valid UTF-8, no NUL.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Guard turns a panic into an error of kind [Internal] that carries the stack.
func Guard(err *error) {
	if cause := recover(); cause != nil {
		*err = Failure(Internal, fmt.Sprintf("internal: %v\n%s", cause, debug.Stack()))
	}
}

// Quiet swallows a panic in a function that has no error to return.
func Quiet() { _ = recover() }
