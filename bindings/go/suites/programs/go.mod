module terracedb.org/go/suites/programs

go 1.24.0

require (
	github.com/ethereum/go-ethereum v1.16.9
	github.com/ipfs/go-datastore v0.5.0
	github.com/ipfs/go-ds-leveldb v0.5.0
)

require (
	github.com/StackExchange/wmi v1.2.1 // indirect
	github.com/go-ole/go-ole v1.3.0 // indirect
	github.com/google/uuid v1.3.0 // indirect
	github.com/holiman/uint256 v1.3.2 // indirect
	github.com/ipfs/go-detect-race v0.0.1 // indirect
	github.com/jbenet/goprocess v0.1.4 // indirect
	github.com/shirou/gopsutil v3.21.4-0.20210419000835-c7a38de76ee5+incompatible // indirect
	github.com/syndtr/goleveldb v1.0.1-0.20210819022825-2ae1ddf74ef7 // indirect
	github.com/tklauser/go-sysconf v0.3.12 // indirect
	github.com/tklauser/numcpus v0.6.1 // indirect
	golang.org/x/crypto v0.36.0 // indirect
	golang.org/x/sys v0.36.0 // indirect
	terracedb.org/go v0.1.0 // indirect
	terracedb.org/go/native/linux_amd64 v0.1.0 // indirect
	terracedb.org/go/native/linux_arm64 v0.1.0 // indirect
)

replace (
	github.com/syndtr/goleveldb => ../../goleveldb
	terracedb.org/go => ../..
	terracedb.org/go/native/linux_amd64 => ../../native/linux_amd64
	terracedb.org/go/native/linux_arm64 => ../../native/linux_arm64
)
