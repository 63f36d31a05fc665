module terracedb.org/go/suites/goleveldb

go 1.24

require (
	github.com/syndtr/goleveldb v1.0.1-0.20220721030215-126854af5e6d
	terracedb.org/go v0.1.0
)

require (
	github.com/golang/snappy v0.0.4 // indirect
	terracedb.org/go/native/linux_amd64 v0.1.0 // indirect
	terracedb.org/go/native/linux_arm64 v0.1.0 // indirect
)

replace (
	terracedb.org/go => ../..
	terracedb.org/go/native/linux_amd64 => ../../native/linux_amd64
	terracedb.org/go/native/linux_arm64 => ../../native/linux_arm64
)
