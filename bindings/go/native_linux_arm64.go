//go:build cgo && !terrace_system && linux && arm64

package terrace

import _ "terracedb.org/go/native/linux_arm64" // the engine
