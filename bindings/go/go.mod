module terracedb.org/go

go 1.24

require (
	terracedb.org/go/native/linux_amd64 v0.1.0
	terracedb.org/go/native/linux_arm64 v0.1.0
)

replace (
	terracedb.org/go/native/linux_amd64 => ./native/linux_amd64
	terracedb.org/go/native/linux_arm64 => ./native/linux_arm64
)
