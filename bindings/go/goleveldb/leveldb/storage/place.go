package storage

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	terrace "terracedb.org/go"
)

// Place is a Storage of this package.
type Place struct {
	mutex    sync.Mutex
	path     string
	memory   *terrace.Memory // nil for a directory
	lock     *directoryLock  // nil for memory
	readOnly bool
	locked   bool
	closed   bool
}

// OpenFile returns the directory path, which it creates. Until the close of the storage, another one of
// this directory in this process is an error that errors.Is finds to be syscall.EAGAIN; storages for
// reads share a directory. Other processes are excluded while a database is open.
func OpenFile(path string, readOnly bool) (Storage, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	case os.IsNotExist(err) && readOnly:
		return nil, err
	case os.IsNotExist(err):
		err = os.MkdirAll(path, 0o755)
	}
	if err != nil {
		return nil, err
	}
	lock, err := lockDirectory(path, readOnly)
	if err != nil {
		return nil, err
	}
	place := &Place{path: path, lock: lock, readOnly: readOnly}
	runtime.AddCleanup(place, (*directoryLock).release, lock)
	return place, nil
}

// NewMemStorage returns a place in memory, whose database lives as long as the place.
func NewMemStorage() Storage {
	return &Place{path: "db", memory: terrace.NewMemory()}
}

// Database returns the path and the memory of the database, and whether it is only for reads.
func (p *Place) Database() (path string, memory *terrace.Memory, readOnly bool, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return "", nil, false, ErrClosed
	}
	return p.path, p.memory, p.readOnly, nil
}

// Lock locks the place, for callers of this method. A database takes its lock apart from it.
func (p *Place) Lock() (Locker, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if p.locked {
		return nil, ErrLocked
	}
	p.locked = true
	return placeLock{p}, nil
}

type placeLock struct{ place *Place }

func (l placeLock) Unlock() {
	l.place.mutex.Lock()
	defer l.place.mutex.Unlock()
	l.place.locked = false
}

// Close closes the place. An open database continues.
func (p *Place) Close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	if p.lock != nil {
		p.lock.release()
	}
	return nil
}

// Log ignores the line: the engine has the log file LOG.
func (*Place) Log(string) {}

// SetMeta returns ErrEngineFiles, as the next methods do.
func (*Place) SetMeta(FileDesc) error { return ErrEngineFiles }

// GetMeta returns ErrEngineFiles.
func (*Place) GetMeta() (FileDesc, error) { return FileDesc{}, ErrEngineFiles }

// List returns ErrEngineFiles.
func (*Place) List(FileType) ([]FileDesc, error) { return nil, ErrEngineFiles }

// Open returns ErrEngineFiles.
func (*Place) Open(FileDesc) (Reader, error) { return nil, ErrEngineFiles }

// Create returns ErrEngineFiles.
func (*Place) Create(FileDesc) (Writer, error) { return nil, ErrEngineFiles }

// Remove returns ErrEngineFiles.
func (*Place) Remove(FileDesc) error { return ErrEngineFiles }

// Rename returns ErrEngineFiles.
func (*Place) Rename(FileDesc, FileDesc) error { return ErrEngineFiles }
