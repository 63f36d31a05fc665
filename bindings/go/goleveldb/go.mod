module github.com/syndtr/goleveldb

go 1.24

require terracedb.org/go v0.1.0

require (
	terracedb.org/go/native/linux_amd64 v0.1.0 // indirect
	terracedb.org/go/native/linux_arm64 v0.1.0 // indirect
)

replace (
	terracedb.org/go => ../
	terracedb.org/go/native/linux_amd64 => ../native/linux_amd64
	terracedb.org/go/native/linux_arm64 => ../native/linux_arm64
)
