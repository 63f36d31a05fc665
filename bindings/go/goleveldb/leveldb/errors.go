package leveldb

import (
	stderrors "errors"
	"os"
	"strings"
	"syscall"

	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"
	terrace "terracedb.org/go"
)

// Errors that programs compare.
var (
	ErrNotFound         = errors.ErrNotFound
	ErrReadOnly         = errors.New("leveldb: read-only mode")
	ErrSnapshotReleased = errors.New("leveldb: snapshot released")
	ErrIterReleased     = errors.New("leveldb: iterator released")
	ErrClosed           = errors.New("leveldb: closed")

	errTransactionDone = errors.New("leveldb: transaction already closed")
)

// ErrBatchCorrupted is the reason why Batch.Load refused its argument.
type ErrBatchCorrupted struct {
	Reason string
}

// Error returns the text.
func (e *ErrBatchCorrupted) Error() string { return "leveldb: batch corrupted: " + e.Reason }

// lockedError is the error of a database that another opener has open.
type lockedError struct{ cause error }

func (e *lockedError) Error() string { return syscall.EAGAIN.Error() + ": " + e.cause.Error() }

func (e *lockedError) Unwrap() []error { return []error{syscall.EAGAIN, storage.ErrLocked, e.cause} }

// translate returns the error of goleveldb for an error of the engine. released is that of the object
// of the call.
func translate(err, released error) error {
	switch {
	case err == nil:
		return nil
	case err == terrace.ErrNotFound:
		return ErrNotFound
	case err == terrace.ErrClosed:
		return ErrClosed
	case err == terrace.ErrReleased:
		return released
	case stderrors.Is(err, terrace.Corruption):
		return errors.NewErrCorrupted(storage.FileDesc{}, err)
	case stderrors.Is(err, terrace.NotSupported):
		return ErrReadOnly
	}
	return err
}

// translateOpen is translate for an open.
func translateOpen(err error, options *terrace.Options) error {
	var engine *terrace.Error
	if !stderrors.As(err, &engine) {
		return translate(err, ErrClosed)
	}
	switch {
	case engine.Kind == terrace.Locked && options.Memory != nil:
		return storage.ErrLocked
	case engine.Kind == terrace.Locked:
		return &lockedError{err}
	case engine.Kind == terrace.InvalidArgument && strings.Contains(engine.Message, "does not exist"):
		return os.ErrNotExist
	case engine.Kind == terrace.InvalidArgument && strings.Contains(engine.Message, "error_if_exists"):
		return os.ErrExist
	case engine.Kind == terrace.NotSupported:
		return err
	}
	return translate(err, ErrClosed)
}
