package testutil

import "github.com/syndtr/goleveldb/leveldb/storage"

// Storage is a place in memory. goleveldb's own type of this name counts and delays accesses to files,
// which the engine does itself.
type Storage = storage.Place

// NewStorage returns an empty place.
func NewStorage() *Storage { return storage.NewMemStorage().(*storage.Place) }
