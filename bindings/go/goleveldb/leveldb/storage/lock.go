package storage

import (
	"os"
	"slices"
	"sync"
	"syscall"

	terrace "terracedb.org/go"
)

// openPlaces are the directories that this process has open as storages. goleveldb locks the file LOCK
// for that, which the engine does for each open database: it also excludes other processes.
var openPlaces struct {
	mutex  sync.Mutex
	places []*directoryLock
}

// directoryLock excludes other storages of a directory. Storages for reads share it.
type directoryLock struct {
	info     os.FileInfo
	readOnly bool
}

// lockedError is the error of a directory that another storage of this process has open.
type lockedError struct{ cause error }

func (e *lockedError) Error() string { return syscall.EAGAIN.Error() + ": " + e.cause.Error() }

func (e *lockedError) Unwrap() []error { return []error{syscall.EAGAIN, ErrLocked, e.cause} }

// lockDirectory locks the existing directory path.
func lockDirectory(path string, readOnly bool) (*directoryLock, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	openPlaces.mutex.Lock()
	defer openPlaces.mutex.Unlock()
	for _, other := range openPlaces.places {
		if os.SameFile(info, other.info) && !(readOnly && other.readOnly) {
			return nil, &lockedError{&terrace.Error{
				Kind:    terrace.Locked,
				Message: path + ": a storage of this process has the directory open",
			}}
		}
	}
	lock := &directoryLock{info, readOnly}
	openPlaces.places = append(openPlaces.places, lock)
	return lock, nil
}

// release has no effect after the first call.
func (l *directoryLock) release() {
	openPlaces.mutex.Lock()
	defer openPlaces.mutex.Unlock()
	openPlaces.places = slices.DeleteFunc(openPlaces.places, func(other *directoryLock) bool { return other == l })
}
