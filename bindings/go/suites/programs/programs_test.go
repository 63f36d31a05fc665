// Package programs pins the programs whose own tests run on goleveldb's packages of this binding.
package programs

import (
	_ "github.com/ethereum/go-ethereum/ethdb/dbtest"
	_ "github.com/ethereum/go-ethereum/ethdb/leveldb"
	_ "github.com/ipfs/go-datastore/test"
	_ "github.com/ipfs/go-ds-leveldb"
)
