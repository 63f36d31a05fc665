//go:build cgo && terrace_system

package terrace

// #cgo pkg-config: leveldb
import "C"
