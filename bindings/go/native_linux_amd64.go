//go:build cgo && !terrace_system && linux && amd64

package terrace

import _ "terracedb.org/go/native/linux_amd64" // the engine
