package terrace

/*
#cgo CFLAGS: -I${SRCDIR}/include
#include <stdlib.h>
#include "terrace/terrace.h"

#cgo noescape terrace_put
#cgo nocallback terrace_put
#cgo noescape terrace_delete
#cgo nocallback terrace_delete
#cgo noescape terrace_write_bytes
#cgo nocallback terrace_write_bytes
#cgo noescape terrace_get_into
#cgo nocallback terrace_get_into
#cgo noescape terrace_txn_put
#cgo nocallback terrace_txn_put
#cgo noescape terrace_txn_delete
#cgo nocallback terrace_txn_delete
#cgo noescape terrace_txn_get
#cgo nocallback terrace_txn_get
#cgo noescape terrace_txn_get_for_update
#cgo nocallback terrace_txn_get_for_update
#cgo noescape terrace_property_number
#cgo nocallback terrace_property_number
*/
import "C"

import "unsafe"

// maxLen is the maximum length of a key or a value: the stored forms have lengths of 32 bits, and Go
// programs on LevelDB expect no more than a signed one.
const maxLen = 1<<31 - 1

// pointer returns the address of the first byte, for a call that does not keep it.
func pointer(bytes []byte) *C.char {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes)))
}

func length(bytes []byte) C.size_t {
	return C.size_t(len(bytes))
}

// bound returns the address of a key that ends a range; nil means no bound, but an empty key is one.
func bound(key []byte) *C.char {
	if key != nil && len(key) == 0 && unsafe.SliceData(key) == nil {
		return pointer([]byte{0})
	}
	return pointer(key)
}

// boolean returns C's form of a truth value.
func boolean(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}

// takeString returns a text of the engine, and frees it.
func takeString(text *C.char) string {
	if text == nil {
		return ""
	}
	defer C.terrace_free(unsafe.Pointer(text))
	return C.GoString(text)
}

// takeBytes returns a value of the engine, and frees it.
func takeBytes(value *C.char, n C.size_t) []byte {
	defer C.terrace_free(unsafe.Pointer(value))
	bytes := make([]byte, n)
	copy(bytes, unsafe.Slice((*byte)(unsafe.Pointer(value)), n))
	return bytes
}

// takeError returns the error that a call stored, or nil, and frees its text.
func takeError(text *C.char) error {
	if text == nil {
		return nil
	}
	return parseError(takeString(text))
}

// checkLengths refuses keys and values that the engine cannot store.
func checkLengths(first, second []byte) error {
	if n := max(len(first), len(second)); n > maxLen {
		return invalid("a key or value has %d bytes, the maximum is %d", n, maxLen)
	}
	return nil
}
