package util

// Range is a range of keys.
type Range struct {
	Start []byte // first key; nil means no bound
	Limit []byte // key after the last one; nil means no bound
}

// BytesPrefix returns the range of the keys that begin with prefix, for the bytewise order.
func BytesPrefix(prefix []byte) *Range {
	for end := len(prefix); end > 0; end-- {
		if last := prefix[end-1]; last < 0xff {
			limit := append([]byte(nil), prefix[:end]...)
			limit[end-1] = last + 1
			return &Range{prefix, limit}
		}
	}
	return &Range{prefix, nil}
}
