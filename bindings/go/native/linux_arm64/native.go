// Package native links Terrace's engine for Linux on ARM with 64 bits: the archive libterrace.a.
//
// Package terracedb.org/go imports it. The archive and the header that identifies its contents are
// built by bindings/go/build from a checkout, and are files of the published module.
package native

// #include "libterrace.h"
// #cgo LDFLAGS: ${SRCDIR}/libterrace.a -lpthread -ldl -lm
import "C"
