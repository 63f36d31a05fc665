//go:build geth

// Package geth pins the program geth, whose database is goleveldb.
package geth

import _ "github.com/ethereum/go-ethereum/cmd/geth"
