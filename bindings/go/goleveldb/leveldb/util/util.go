// Package util has the small types that the other packages share.
package util

import "errors"

// Errors of releasers.
var (
	// ErrReleased is the reason of a panic of SetReleaser after a release.
	ErrReleased = errors.New("leveldb: resource already released")
	// ErrHasReleaser is the reason of a panic of SetReleaser with a second releaser.
	ErrHasReleaser = errors.New("leveldb: releaser already defined")
)

// Releaser is a resource that its user releases. A second release has no effect.
type Releaser interface {
	Release()
}

// ReleaseSetter calls a releaser when it is released itself.
type ReleaseSetter interface {
	// SetReleaser sets the releaser; nil removes it. It panics after the release, and if another
	// releaser is set.
	SetReleaser(releaser Releaser)
}

// BasicReleaser implements Releaser and ReleaseSetter.
type BasicReleaser struct {
	releaser Releaser
	released bool
}

// Released reports whether Release was called.
func (r *BasicReleaser) Released() bool { return r.released }

// Release calls the releaser at its first call.
func (r *BasicReleaser) Release() {
	if r.released {
		return
	}
	r.released = true
	if releaser := r.releaser; releaser != nil {
		r.releaser = nil
		releaser.Release()
	}
}

// SetReleaser implements ReleaseSetter.
func (r *BasicReleaser) SetReleaser(releaser Releaser) {
	if r.released {
		panic(ErrReleased)
	}
	if r.releaser != nil && releaser != nil {
		panic(ErrHasReleaser)
	}
	r.releaser = releaser
}

// NoopReleaser is a Releaser without an effect.
type NoopReleaser struct{}

// Release has no effect.
func (NoopReleaser) Release() {}
