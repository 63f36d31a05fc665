package terrace

import "sync"

// child is a handle that ends with its database: an iterator, a snapshot or a transaction.
type child interface {
	// end frees the engine's object, once. Waits for a call in progress.
	end()
	kind() childKind
	links() *childLinks
}

type childKind uint8

const (
	iteratorChild childKind = iota
	snapshotChild
	txnChild
	childKinds
)

// childLinks are the neighbours of a child in the list of its database.
type childLinks struct {
	previous, next child
	listed         bool
}

func (l *childLinks) links() *childLinks { return l }

// children is the list of the living children of a database.
type children struct {
	mutex  sync.Mutex
	first  child
	counts [childKinds]int
	closed bool
}

// add lists a new child. Returns false, and does not list it, after endAll.
func (c *children) add(new child) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return false
	}
	links := new.links()
	links.next, links.listed = c.first, true
	if c.first != nil {
		c.first.links().previous = new
	}
	c.first = new
	c.counts[new.kind()]++
	return true
}

// remove removes a child that ends before its database. A second call has no effect.
func (c *children) remove(old child) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	links := old.links()
	if !links.listed {
		return
	}
	if links.previous != nil {
		links.previous.links().next = links.next
	} else {
		c.first = links.next
	}
	if links.next != nil {
		links.next.links().previous = links.previous
	}
	*links = childLinks{}
	c.counts[old.kind()]--
}

// endAll ends all children, and refuses new ones.
func (c *children) endAll() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.closed = true
	for next := c.first; next != nil; {
		current := next
		next = current.links().next
		*current.links() = childLinks{}
		current.end()
	}
	c.first, c.counts = nil, [childKinds]int{}
}

// numbers returns the number of children of each kind.
func (c *children) numbers() [childKinds]int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.counts
}
