package terrace

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that programs compare with errors.Is.
var (
	// ErrNotFound is the result of a read of a key that does not exist.
	ErrNotFound = errors.New("terrace: not found")
	// ErrClosed is the result of a call for a closed database, or for an iterator, a snapshot or a
	// transaction of it.
	ErrClosed = errors.New("terrace: closed")
	// ErrReleased is the result of a call for an iterator or a snapshot that was released, or for a
	// transaction that has ended.
	ErrReleased = errors.New("terrace: released")
)

// Kind is the kind of an engine's error. Programs compare it: errors.Is(err, terrace.Corruption).
type Kind string

// Kinds of errors.
const (
	NotFound        Kind = "NotFound"         // a file is missing
	Corruption      Kind = "Corruption"       // stored bytes are damaged
	NotSupported    Kind = "Not implemented"  // the handle does not allow the call, for example a write
	InvalidArgument Kind = "Invalid argument" // wrong arguments or options; a missing or existing database
	IO              Kind = "IO error"         // the operating system returned an error
	Busy            Kind = "Busy"             // another writer interfered with a transaction: try again
	Locked          Kind = "Locked"           // another opener has the database open
)

// Error returns the name of the kind.
func (k Kind) Error() string { return string(k) }

// Error is an error of the engine.
type Error struct {
	Kind    Kind
	Message string // contains the file and the place, if there is one
}

// Error returns kind and message, in LevelDB's form.
func (e *Error) Error() string { return string(e.Kind) + ": " + e.Message }

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool { return target == e.Kind }

func invalid(format string, arguments ...any) error {
	return &Error{InvalidArgument, fmt.Sprintf(format, arguments...)}
}

// parseError returns the error of a text that begins with its kind.
func parseError(text string) error {
	kind, message, _ := strings.Cut(text, ": ")
	if Kind(kind) == IO && strings.HasPrefix(message, "lock ") {
		kind = string(Locked)
	}
	return &Error{Kind(kind), message}
}
