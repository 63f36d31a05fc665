// Package errors has the error types of the other packages.
package errors

import (
	"errors"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Common errors.
var (
	// ErrNotFound is the result of a read of a key that does not exist.
	ErrNotFound    = New("leveldb: not found")
	ErrReleased    = util.ErrReleased
	ErrHasReleaser = util.ErrHasReleaser
)

// New returns an error with a text.
func New(text string) error { return errors.New(text) }

// ErrCorrupted is the error of damaged data. Err names the file.
type ErrCorrupted struct {
	Fd  storage.FileDesc
	Err error
}

// Error returns the text.
func (e *ErrCorrupted) Error() string {
	if e.Fd.Zero() {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v [file=%v]", e.Err, e.Fd)
}

// Unwrap returns the cause.
func (e *ErrCorrupted) Unwrap() error { return e.Err }

// NewErrCorrupted returns an ErrCorrupted.
func NewErrCorrupted(fd storage.FileDesc, err error) error { return &ErrCorrupted{fd, err} }

// IsCorrupted reports whether an error says that data are damaged.
func IsCorrupted(err error) bool {
	var ours *ErrCorrupted
	var stored *storage.ErrCorrupted
	return errors.As(err, &ours) || errors.As(err, &stored)
}

// ErrMissingFiles is the type of an error of goleveldb that programs name. The engine reports missing
// files as an ErrCorrupted.
type ErrMissingFiles struct {
	Fds []storage.FileDesc
}

// Error returns the text.
func (e *ErrMissingFiles) Error() string { return "file missing" }

// SetFd sets the file of an ErrCorrupted, and returns other errors unchanged.
func SetFd(err error, fd storage.FileDesc) error {
	if corrupted, ok := err.(*ErrCorrupted); ok {
		corrupted.Fd = fd
	}
	return err
}
