// Package cometbft pins cometbft-db, whose tests for goleveldb run on the packages of this binding.
package cometbft

import (
	_ "github.com/cometbft/cometbft-db"
	_ "github.com/stretchr/testify/require"
)
