// Package cache has the statistics type of goleveldb's caches. The engine has caches of its own.
package cache

// Stats are statistics of a cache.
type Stats struct {
	Buckets     int
	Nodes       int64
	Size        int64
	GrowCount   int32
	ShrinkCount int32
	HitCount    int64
	MissCount   int64
	SetCount    int64
	DelCount    int64
}
