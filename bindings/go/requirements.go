//go:build !cgo || (!terrace_system && !(linux && (amd64 || arm64)))

package terrace

// The name of this type is the message of the compiler for a build that cannot contain the engine.
var _ Terrace_needs_CGO_ENABLED_1_with_a_C_compiler_and_linux_amd64_or_linux_arm64_or_the_tag_terrace_system
