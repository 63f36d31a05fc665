// Package storage names the place of a database: a directory, or memory.
//
// The engine reads and writes files itself. Therefore a database opens only in a Storage of this
// package, and the methods of such a Storage that read or write single files return ErrEngineFiles.
package storage

import (
	"errors"
	"fmt"
	"io"
)

// Errors of storages.
var (
	ErrInvalidFile = errors.New("leveldb/storage: invalid file for argument")
	ErrLocked      = errors.New("leveldb/storage: already locked")
	ErrClosed      = errors.New("leveldb/storage: closed")
	// ErrEngineFiles is the result of methods for single files.
	ErrEngineFiles = errors.New("leveldb/storage: only the engine of Terrace reads and writes the files of a database")
)

// FileType is a kind of file.
type FileType int

// Kinds of files.
const (
	TypeManifest FileType = 1 << iota
	TypeJournal
	TypeTable
	TypeTemp

	TypeAll = TypeManifest | TypeJournal | TypeTable | TypeTemp
)

// String returns the name of the kind.
func (t FileType) String() string {
	switch t {
	case TypeManifest:
		return "manifest"
	case TypeJournal:
		return "journal"
	case TypeTable:
		return "table"
	case TypeTemp:
		return "temp"
	}
	return fmt.Sprintf("<unknown:%d>", int(t))
}

// FileDesc names a file.
type FileDesc struct {
	Type FileType
	Num  int64
}

// String returns the name of the file.
func (fd FileDesc) String() string {
	switch fd.Type {
	case TypeManifest:
		return fmt.Sprintf("MANIFEST-%06d", fd.Num)
	case TypeJournal:
		return fmt.Sprintf("%06d.log", fd.Num)
	case TypeTable:
		return fmt.Sprintf("%06d.ldb", fd.Num)
	case TypeTemp:
		return fmt.Sprintf("%06d.tmp", fd.Num)
	}
	return fmt.Sprintf("%#x-%d", int(fd.Type), fd.Num)
}

// Zero reports whether fd names no file.
func (fd FileDesc) Zero() bool { return fd == FileDesc{} }

// FileDescOk reports whether fd can name a file.
func FileDescOk(fd FileDesc) bool {
	switch fd.Type {
	case TypeManifest, TypeJournal, TypeTable, TypeTemp:
		return fd.Num >= 0
	}
	return false
}

// ErrCorrupted is the error of damaged data in a storage.
type ErrCorrupted struct {
	Fd  FileDesc
	Err error
}

// Error returns the text.
func (e *ErrCorrupted) Error() string {
	if e.Fd.Zero() {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v [file=%v]", e.Err, e.Fd)
}

// Syncer makes its data durable.
type Syncer interface {
	Sync() error
}

// Reader reads a file.
type Reader interface {
	io.ReadSeeker
	io.ReaderAt
	io.Closer
}

// Writer writes a file.
type Writer interface {
	io.WriteCloser
	Syncer
}

// Locker holds a lock.
type Locker interface {
	Unlock()
}

// Storage is the place of a database.
type Storage interface {
	Lock() (Locker, error)
	Log(str string)
	SetMeta(fd FileDesc) error
	GetMeta() (FileDesc, error)
	List(ft FileType) ([]FileDesc, error)
	Open(fd FileDesc) (Reader, error)
	Create(fd FileDesc) (Writer, error)
	Remove(fd FileDesc) error
	Rename(oldfd, newfd FileDesc) error
	Close() error
}
