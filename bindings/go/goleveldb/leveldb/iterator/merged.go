package iterator

import (
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// NewMergedIterator returns an iterator over the entries of all iterators, in the order of their keys.
// If it is not strict, it omits iterators with damaged data.
func NewMergedIterator(iters []Iterator, cmp comparer.Comparer, strict bool) Iterator {
	return &merged{iters: iters, cmp: cmp, strict: strict}
}

type merged struct {
	util.BasicReleaser
	iters    []Iterator
	cmp      comparer.Comparer
	strict   bool
	current  Iterator // nil before the first and after the last entry
	forward  bool     // all other iterators are after the current entry; otherwise, before it
	atEnd    bool     // after the last entry
	err      error
	callback func(err error)
}

func (m *merged) SetErrorCallback(f func(err error)) { m.callback = f }

// each moves all iterators with move. Returns false after an error.
func (m *merged) each(move func(Iterator)) bool {
	if m.Released() && m.err == nil {
		m.err = ErrIterReleased
	}
	if m.err != nil {
		m.current = nil
		return false
	}
	for _, it := range m.iters {
		move(it)
		if !m.check(it.Error()) {
			return false
		}
	}
	return true
}

// check records an error. Returns false if the iteration ends with it.
func (m *merged) check(err error) bool {
	if err == nil {
		return true
	}
	if m.callback != nil {
		m.callback(err)
	}
	if !m.strict && errors.IsCorrupted(err) {
		return true
	}
	m.err, m.current = err, nil
	return false
}

// choose makes the iterator with the next entry in the direction the current one.
func (m *merged) choose(forward bool) bool {
	m.current, m.forward, m.atEnd = nil, forward, false
	for _, it := range m.iters {
		if !it.Valid() {
			continue
		}
		if m.current == nil || (m.cmp.Compare(it.Key(), m.current.Key()) < 0) == forward {
			m.current = it
		}
	}
	m.atEnd = m.current == nil && forward
	return m.current != nil
}

func (m *merged) First() bool {
	return m.each(func(it Iterator) { it.First() }) && m.choose(true)
}

func (m *merged) Last() bool {
	return m.each(func(it Iterator) { it.Last() }) && m.choose(false)
}

func (m *merged) Seek(key []byte) bool {
	return m.each(func(it Iterator) { it.Seek(key) }) && m.choose(true)
}

func (m *merged) Next() bool {
	switch {
	case m.current == nil && m.atEnd:
		return false
	case m.current == nil:
		return m.First()
	case !m.forward:
		key := append([]byte(nil), m.current.Key()...)
		return m.each(func(it Iterator) {
			if it.Seek(key) && m.cmp.Compare(it.Key(), key) == 0 {
				it.Next()
			}
		}) && m.choose(true)
	}
	m.current.Next()
	return m.check(m.current.Error()) && m.choose(true)
}

func (m *merged) Prev() bool {
	switch {
	case m.current == nil && !m.atEnd:
		return false
	case m.current == nil:
		return m.Last()
	case m.forward:
		key := append([]byte(nil), m.current.Key()...)
		return m.each(func(it Iterator) {
			if it.Seek(key) {
				it.Prev()
			} else {
				it.Last()
			}
		}) && m.choose(false)
	}
	m.current.Prev()
	return m.check(m.current.Error()) && m.choose(false)
}

func (m *merged) Valid() bool { return m.current != nil && !m.Released() }

func (m *merged) Key() []byte {
	if m.current == nil {
		return nil
	}
	return m.current.Key()
}

func (m *merged) Value() []byte {
	if m.current == nil {
		return nil
	}
	return m.current.Value()
}

func (m *merged) Error() error { return m.err }

func (m *merged) Release() {
	if m.Released() {
		return
	}
	m.current = nil
	for _, it := range m.iters {
		it.Release()
	}
	m.BasicReleaser.Release()
}
